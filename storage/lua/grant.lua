-- Answers asks for sessions: one call however many asks there are.
--
-- Keys: since  string: since when this server knows what is asked
-- then nine per ask (storage/redis/connection.py lists them all):
--   state     hash  of provider x source:
--               paid_until     GCRA's theoretical arrival time: recipients are sold until then
--               paid_rate      recipients a second that this was reckoned with
--               paid_burst     the largest burst at which any of these were sold
--               share          learned part of the base rate, 0 < share < 1; absent = 1
--               strikes        rate replies in a row; absent = 0; while there are any, one session at a time
--               blocks         sessions in a row in which the provider refused us; absent = 0
--               held           there were too many of these; absent = no; one session at a time as well
--               blocked_until  end of the penalty or the hold; absent = none
--               learned_at     when the share last changed
--   sessions  zset  of provider x source: lease -> its end
--   address   zset  of the destination IP: lease -> its end
--   pace      string of the destination IP x source: paid_until
--   asked     hash, twice: of provider x source, and of the destination's network x source, where the provider
--             blocks who asks for too many unknown recipients: lease -> "begun|until|known|unknown". While the
--             session is open all its recipients count as unknown; known ones count for a while after `begun`.
--             Where nobody knows whether it does: of provider x source, and of the destination x source.
--   domains   set, twice: of the provider, and of the destination: some of the domains they serve, for an hour
--   tally     hash  of list x provider x source: "asked" and "missing" recipients, and those under way:
--             lease -> "until|recipients". A list that too few know of there is not asked for any more.
-- All times are seconds since the epoch by this server's clock. It may be set back, or a server take over whose
-- clock is behind: what ends later than anything can that begins now is cut to that.
--
-- ARGV: now ("" = this server's clock), lease seconds, busy seconds, slowest rate, name of the first lease,
--       seconds no session outlasts, seconds an unknown recipient counts, seconds a known one does,
--       seconds a tally is kept, domains from which on a server is a hoster's, seconds of the longest hold;
--       then nineteen per ask: recipients wanted, sessions, rate, burst, lease number,
--       the address's sessions, rate, burst,
--       unknown recipients for which the provider blocks (0 = it does not), fewest recipients of use there,
--       the share of missing ones at which the list stops (0 = it does not), after how many that were asked,
--       and what the database knows of: asked, missing; seconds after which one that is stopped comes back,
--       unknown recipients for which it may block (0 = that is not minded), seconds after which the session
--       asks for nobody any more where they count, and is over for a tally, seconds that are rather waited than
--       fewer recipients taken for the sake of a rate, domains that wait, by blanks
-- Returns six numbers per ask: recipients granted, milliseconds until asking again makes sense,
-- 0 or why: 1 when the provider is left alone because it refuses us, 2 when more is possible once a session
-- has ended, 3 when the list stops there;
-- 1 where unknown recipients count, else 0; how many more may be unknown, and how many more were known than
-- unknown, less one: nil where that does not matter.

local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] + time[2] / 1e6
end
local lease_seconds, busy, slowest, name = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
local longest, unknown_seconds, known_seconds = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local kept_seconds, many, longest_hold = tonumber(ARGV[9]), tonumber(ARGV[10]), tonumber(ARGV[11])
local DAY = 86400000

local function stamp(time)
  return string.format('%.6f', time)
end

-- A clock that says how many may go at once now, and when `wanted` (or a full burst) may. Stored times are
-- rounded to a microsecond, hence 1e-6.
local function gate(paid_until, rate, burst, wanted)
  local start = math.max(paid_until or 0, now)
  return {
    start = start,
    rate = rate,
    available = math.min(burst, math.floor((now - start + 1e-6) * rate + burst)),
    wait = start - now - (burst - math.min(wanted, burst)) / rate,
  }
end

local function full(key, limit)
  redis.call('ZREMRANGEBYSCORE', key, '-inf', stamp(now))
  if redis.call('ZCARD', key) < limit then
    return false
  end
  local latest = stamp(now + lease_seconds)
  for _, lease in ipairs(redis.call('ZRANGEBYSCORE', key, '(' .. latest, '+inf')) do
    redis.call('ZADD', key, latest, lease)
  end
  return true
end

local function open(key, lease)
  redis.call('ZADD', key, stamp(now + lease_seconds), lease)
  redis.call('PEXPIRE', key, math.ceil(lease_seconds * 1000))
end

-- Since when this server knows what is asked: one that was emptied must not think that nothing was.
redis.call('SET', KEYS[1], stamp(now), 'NX', 'PX', DAY)
redis.call('PEXPIRE', KEYS[1], DAY)
local since = tonumber(redis.call('GET', KEYS[1]))
if since > now then
  since = now
  redis.call('SET', KEYS[1], stamp(now), 'PX', DAY)
end
local ignorant = since + unknown_seconds - now

-- How many recipients may be asked for if every single one may turn out to be unknown, in either of two ways,
-- seconds until the next one of those that count is forgotten, and whether a session is under way.
local function room(key, most)
  local known, unknown, opens, running = 0, 0, nil, false
  local entries = redis.call('HGETALL', key)
  for i = 1, #entries, 2 do
    local begun, till, good, bad = string.match(entries[i + 1], '^([^|]+)|([^|]+)|([^|]+)|([^|]+)$')
    if tonumber(till) <= now then
      redis.call('HDEL', key, entries[i])
    else
      if tonumber(till) > now + longest + unknown_seconds then
        begun, till = '0', stamp(now + unknown_seconds)
        redis.call('HSET', key, entries[i], table.concat({begun, till, good, bad}, '|'))
      end
      if tonumber(begun) + known_seconds > now then
        known = known + good
      end
      unknown = unknown + bad
      opens = math.min(opens or till, till)
      running = running or till - unknown_seconds > now + 1e-3
    end
  end
  return most - 1 - unknown, known - unknown - 1, (opens or now) - now, running
end

-- Whether so many domains have been waiting for a server that it is a hoster's; these are waiting now.
local function serves_many(key, domains)
  if redis.call('SCARD', key) >= many then
    return true
  end
  local added = 0
  for domain in string.gmatch(domains, '%S+') do
    added = added + redis.call('SADD', key, domain)
  end
  if added > 0 then
    redis.call('PEXPIRE', key, 3600000)
  end
  return redis.call('SCARD', key) >= many
end

-- What a list has asked for: answered, missing, and in sessions under way. Whoever knows more is right: the
-- database after this server lost its memory, else this server.
local function tallied(key, asked, missing)
  local entries, counts, under_way = redis.call('HGETALL', key), {asked = 0, missing = 0}, 0
  for i = 1, #entries, 2 do
    if counts[entries[i]] then
      counts[entries[i]] = tonumber(entries[i + 1])
    else
      local till, recipients = string.match(entries[i + 1], '^([^|]+)|([^|]+)$')
      if tonumber(till) > now and tonumber(till) <= now + longest + 1e-3 then
        under_way = under_way + recipients
      else
        redis.call('HDEL', key, entries[i])
      end
    end
  end
  if counts.asked < asked then
    return asked, missing, under_way
  end
  return counts.asked, counts.missing, under_way
end

-- Milliseconds after which forgetting a clock changes nothing.
local function pause(paid_until)
  return math.ceil((paid_until - now) * 1000) + 1000
end

local function answer(ask)
  local place = 1 + ask * 9
  local state, sessions, address, pace = KEYS[place + 1], KEYS[place + 2], KEYS[place + 3], KEYS[place + 4]
  local first = 11 + ask * 19
  local arg = {}
  for i = 1, 18 do
    arg[i] = tonumber(ARGV[first + i])
  end
  local wanted = arg[1]

  local known = redis.call('HMGET', state, 'paid_until', 'share', 'strikes', 'blocked_until', 'held', 'blocks',
    'paid_rate', 'paid_burst')
  local held = known[5] and 1 or 0
  local blocked_until = tonumber(known[4] or 0)
  if blocked_until > now + longest_hold then
    blocked_until = now + longest_hold
    redis.call('HSET', state, 'blocked_until', stamp(blocked_until))
  end
  if blocked_until > now then
    return 0, blocked_until - now, held
  end
  local allowed = (known[3] or known[5]) and 1 or arg[2]
  if full(sessions, allowed) or full(address, arg[6]) then
    return 0, busy, 2
  end
  local listed, asked, missing, under_way = arg[11] > 0
  if listed then
    asked, missing, under_way = tallied(KEYS[place + 7], arg[13], arg[14])
    if asked >= arg[12] and missing >= arg[11] * asked then
      return 0, arg[15], 3
    end
    local worst = asked + under_way
    if under_way > 0 and worst >= arg[12] and missing + under_way >= arg[11] * worst then
      return 0, busy, 2
    end
  end
  local strict, careful, fits, cut, more, surplus = arg[9] > 0, arg[16] > 0, wanted, 0
  if strict and ignorant > 0 then
    return 0, ignorant, 0
  end
  if careful then
    local domains = ARGV[first + 19]
    local many_there = serves_many(KEYS[place + 8], domains)
    local many_here = serves_many(KEYS[place + 9], domains)
    -- Who has ever refused us, or called us too fast, is no harmless hoster; nor harmless because few wait there.
    careful = (domains ~= '' and not (many_there or many_here)) or known[2] or known[3] or known[6]
  end
  local watched = strict or careful
  if watched then
    for number = 5, 6 do
      local free, gain, opens, running = room(KEYS[place + number], strict and arg[9] or arg[16])
      local fit = math.max(free, gain)
      if fit < arg[10] then
        return 0, running and busy or math.max(opens, 0.001), running and 2 or 0
      elseif strict and fit < fits then
        fits, cut = fit, 2
      elseif not strict and fit < wanted then
        -- The session finds out as it goes; what both places allow.
        more, surplus = math.min(more or free, free), math.min(surplus or gain, gain)
      end
    end
  end

  local share = tonumber(known[2] or 1)
  local rate = math.max(arg[3] * share, math.min(arg[3], slowest))
  local burst = math.max(1, math.floor(arg[4] * share + 1e-6))
  local paid_until = tonumber(known[1] or 0)
  local sold = math.max(arg[4], paid_until > now and tonumber(known[8] or 0) or 0)
  local function owe(time)
    redis.call('HSET', state, 'paid_until', stamp(time), 'paid_rate', string.format('%.17g', rate),
      'paid_burst', sold)
    if not known[2] and not known[3] and not known[6] then
      redis.call('PEXPIRE', state, pause(time))
    end
  end
  if paid_until > now then
    -- What is owed is recipients: workers may know of different rates for some seconds after one was changed or
    -- earned, and what was sold at one is neither forgiven nor dearer at another. Nobody owes more than the
    -- largest burst that any of them knew of, less where we were called too fast.
    -- It is written down at the new rate at once, or it would go on being paid off at the old one.
    local reckoned = tonumber(known[7] or rate)
    local most = math.max(1, math.floor(sold * share + 1e-6))
    local owed = (paid_until - now) * reckoned
    paid_until = now + math.min(owed, most) / rate
    if reckoned ~= rate or owed > most then
      owe(paid_until)
    end
  end
  local mine = gate(paid_until, rate, burst, wanted)
  local their_paid_until, latest = tonumber(redis.call('GET', pace) or 0), now + arg[8] / arg[7]
  if their_paid_until > latest then
    their_paid_until = latest
    redis.call('SET', pace, stamp(latest), 'PX', pause(latest))
  end
  local theirs = gate(their_paid_until, arg[7], arg[8], wanted)
  local count = math.min(fits, mine.available, theirs.available)
  local wait = math.max(mine.wait, theirs.wait)
  if count < 1 or (count < fits and wait > 0 and wait <= arg[18]) then
    return 0, math.max(wait, 0.001), 0
  end

  owe(mine.start + count / mine.rate)
  local address_paid = theirs.start + count / theirs.rate
  redis.call('SET', pace, stamp(address_paid), 'PX', pause(address_paid))
  local lease = name .. arg[5]
  open(sessions, lease)
  open(address, lease)
  if watched then
    local till = now + arg[17] + unknown_seconds
    for number = 5, 6 do
      redis.call('HSET', KEYS[place + number], lease, stamp(now) .. '|' .. stamp(till) .. '|0|' .. count)
      if redis.call('PTTL', KEYS[place + number]) < pause(till) then  -- another session may have longer
        redis.call('PEXPIRE', KEYS[place + number], pause(till))
      end
    end
  end
  if listed then
    redis.call('HSET', KEYS[place + 7], 'asked', asked, 'missing', missing,
      lease, stamp(now + arg[17]) .. '|' .. count)
    redis.call('PEXPIRE', KEYS[place + 7], math.ceil(kept_seconds * 1000))
  end
  return count, 0, count == fits and cut or 0, watched, more, surplus
end

local answers = {}
for ask = 0, math.floor(#KEYS / 9) - 1 do
  local count, wait, held, watched, more, surplus = answer(ask)
  answers[#answers + 1] = count
  answers[#answers + 1] = math.ceil(wait * 1000)
  answers[#answers + 1] = held
  answers[#answers + 1] = watched and 1 or 0
  answers[#answers + 1] = more or false
  answers[#answers + 1] = surplus or false
end
return answers
