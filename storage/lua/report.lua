-- Frees the leases of sessions that ended and learns from how they went.
--
-- Keys: seen  zset  of the providers x sources with the most sessions: name -> sessions
--       mix   hash  of the same: "<name>|<outcome>" -> sessions, and when counting began: "since"
--       then six per report: state, sessions, address, asked, asked, tally; grant.lua says what they hold.
-- ARGV: now ("" = this server's clock), seconds a lesson is remembered, slowest rate,
--       first penalty in seconds, longest penalty, refused sessions in a row that begin a hold, its seconds,
--       how many names are counted and for how many seconds, seconds an unknown recipient counts,
--       seconds a tally is kept;
--       then twelve per report: lease, outcome (clean, rate, blocked; others teach nothing), base rate,
--       factor >= 1 for the penalty, name of provider x source,
--       recipients known and unknown there ("" = it does not matter, or nobody can say),
--       what the list asked for in it and what of that is missing ("" = it is not counted), what the database
--       knew of both before, recipients that were asked for beside the granted ones
-- Returns the places of the reports with which a hold began, from 0 on.

local RECOVERY = 0.05 / 60 -- of the base rate, a second of clean success
local CLEAN_SECONDS = 60   -- one clean session vouches for at most this long

local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] + time[2] / 1e6
end
local remember, slowest = tonumber(ARGV[2]), tonumber(ARGV[3])
local penalty, longest = tonumber(ARGV[4]), tonumber(ARGV[5])
local most_blocks, hold = tonumber(ARGV[6]), tonumber(ARGV[7])
local kept, mix_seconds, unknown_seconds = tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10])
local kept_seconds = tonumber(ARGV[11])
local OUTCOMES = {'clean', 'rate', 'blocked', 'failed'}

local function learn(state, share, strikes, blocked_until)
  redis.call('HSET', state, 'share', share, 'learned_at', string.format('%.6f', now),
    'blocked_until', string.format('%.6f', blocked_until))
  if strikes > 0 then
    redis.call('HSET', state, 'strikes', strikes)
  else
    redis.call('HDEL', state, 'strikes')
  end
  redis.call('PEXPIRE', state, math.ceil(remember * 1000))
end

local function rate_reply(state, base, factor)
  local known = redis.call('HMGET', state, 'share', 'strikes', 'blocked_until')
  if tonumber(known[3] or 0) > now then
    return -- sessions of the same time tell the same thing
  end
  local strikes = tonumber(known[2] or 0) + 1
  local share = math.max(tonumber(known[1] or 1) / 2, math.min(1, slowest / base))
  local seconds = math.min(longest, penalty * 2 ^ math.min(strikes - 1, 10) * factor)
  learn(state, share, strikes, now + seconds)
end

-- Whether the provider is left alone from now on.
local function blocked(state)
  local blocked_until = tonumber(redis.call('HGET', state, 'blocked_until') or 0)
  if blocked_until > now then
    return false -- sessions of the same time tell the same thing
  end
  local held = redis.call('HINCRBY', state, 'blocks', 1) >= most_blocks
  if held then
    redis.call('HSET', state, 'held', 1, 'blocked_until', string.format('%.6f', now + hold))
  end
  redis.call('PEXPIRE', state, math.ceil(remember * 1000))
  return held
end

local function clean(state)
  local known = redis.call('HMGET', state, 'share', 'learned_at', 'blocked_until', 'blocks')
  local blocked_until = tonumber(known[3] or 0)
  if blocked_until > now then
    return -- a session from before the penalty
  end
  if known[4] then
    redis.call('HDEL', state, 'blocks', 'held')
  end
  if not known[1] then
    return -- nothing to recover from
  end
  local seconds = math.min(now - known[2], CLEAN_SECONDS)
  local share = known[1] + math.max(seconds, 0) * RECOVERY
  if share < 1 then
    learn(state, share, 0, blocked_until)
  else
    redis.call('HDEL', state, 'share', 'strikes', 'blocked_until', 'learned_at')
  end
end

-- For people: whom we ask most, and how that goes. A newcomer takes the place, and the rank, of the last.
local function count(seen, mix, who, outcome)
  if redis.call('EXISTS', mix) == 0 then
    redis.call('DEL', seen)
    redis.call('HSET', mix, 'since', string.format('%.3f', now))
    redis.call('PEXPIRE', mix, math.ceil(mix_seconds * 1000))
    redis.call('ZADD', seen, 0, who)
    redis.call('PEXPIRE', seen, math.ceil(mix_seconds * 1000))
  end
  local rank = 1
  if not redis.call('ZSCORE', seen, who) and redis.call('ZCARD', seen) >= kept then
    local last = redis.call('ZPOPMIN', seen)
    rank = last[2] + 1
    for _, each in ipairs(OUTCOMES) do
      redis.call('HDEL', mix, last[1] .. '|' .. each)
    end
  end
  redis.call('ZINCRBY', seen, rank, who)
  redis.call('HINCRBY', mix, who .. '|' .. outcome, 1)
end

-- What a gateway was asked for from here; a session that nobody knows of any more earns nothing by it.
local function remember_asked(key, lease, known, unknown)
  local begun = string.match(redis.call('HGET', key, lease) or '', '^[^|]+') or '0'
  if known + unknown == 0 then
    redis.call('HDEL', key, lease)
    return
  end
  local entry = {begun, string.format('%.6f', now + unknown_seconds), known, unknown}
  redis.call('HSET', key, lease, table.concat(entry, '|'))
  if redis.call('PTTL', key) < unknown_seconds * 1000 then
    redis.call('PEXPIRE', key, math.ceil(unknown_seconds * 1000))
  end
end

-- What a list asked for; where that was lost, from what the database knows on.
local function tally(key, lease, asked, missing, before, before_missing)
  redis.call('HDEL', key, lease)
  if redis.call('EXISTS', key) == 0 then
    redis.call('HSET', key, 'asked', before, 'missing', before_missing)
  end
  redis.call('HINCRBY', key, 'asked', asked)
  redis.call('HINCRBY', key, 'missing', missing)
  redis.call('PEXPIRE', key, math.ceil(kept_seconds * 1000))
end

-- What was asked for beside what was granted is paid for like that.
local function charge(state, base, recipients)
  local known = redis.call('HMGET', state, 'paid_until', 'paid_rate', 'share')
  local rate = tonumber(known[2] or math.max(base * (known[3] or 1), math.min(base, slowest)))
  local paid_until = math.max(now, tonumber(known[1] or 0)) + recipients / rate
  redis.call('HSET', state, 'paid_until', string.format('%.6f', paid_until),
    'paid_rate', string.format('%.17g', rate))
  local kept_for = math.ceil((paid_until - now) * 1000) + 1000
  if redis.call('PTTL', state) < kept_for then
    redis.call('PEXPIRE', state, kept_for)
  end
end

local holds = {}
for report = 0, math.floor(#KEYS / 6) - 1 do
  local place, first = 2 + report * 6, 11 + report * 12
  local state, lease, outcome = KEYS[place + 1], ARGV[first + 1], ARGV[first + 2]
  redis.call('ZREM', KEYS[place + 2], lease)
  redis.call('ZREM', KEYS[place + 3], lease)
  if ARGV[first + 6] ~= '' then
    for number = 4, 5 do
      remember_asked(KEYS[place + number], lease, tonumber(ARGV[first + 6]), tonumber(ARGV[first + 7]))
    end
  end
  if ARGV[first + 8] ~= '' then
    tally(KEYS[place + 6], lease, unpack(ARGV, first + 8, first + 11))
  end
  count(KEYS[1], KEYS[2], ARGV[first + 5], outcome)
  if tonumber(ARGV[first + 12]) > 0 then
    charge(state, tonumber(ARGV[first + 3]), tonumber(ARGV[first + 12]))
  end
  if outcome == 'rate' then
    rate_reply(state, tonumber(ARGV[first + 3]), tonumber(ARGV[first + 4]))
  elseif outcome == 'clean' then
    clean(state)
  elseif outcome == 'blocked' and blocked(state) then
    holds[#holds + 1] = report
  end
end
return holds
