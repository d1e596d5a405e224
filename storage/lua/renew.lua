-- Renews the leases of sessions under way; one that is over by now stays so, unless this server cannot know of
-- it: it was emptied after the session had begun, or was away when it did. Frees those of sessions that ended
-- while it was away.
--
-- Keys: since; then four per lease: sessions, address, asked, asked; grant.lua says what they hold.
-- ARGV: now ("" = this server's clock), lease seconds; then four per lease: its name, how many seconds ago the
--       session began (-1 = it has ended), its recipients where they count as asked, else 0, and for how many
--       seconds more they do
-- Returns 1.

local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] + time[2] / 1e6
end
local seconds = tonumber(ARGV[2])
local stop = string.format('%.6f', now + seconds)
local since = tonumber(redis.call('GET', KEYS[1]) or now)

local function renew(key, lease, age)
  if redis.call('ZSCORE', key, lease) or now - age < since then
    redis.call('ZADD', key, stop, lease)
    redis.call('PEXPIRE', key, math.ceil(seconds * 1000))
  end
end

for number = 0, (#KEYS - 1) / 4 - 1 do
  local place, first = 1 + number * 4, 3 + number * 4
  local lease, age = ARGV[first], tonumber(ARGV[first + 1])
  local recipients, longest = tonumber(ARGV[first + 2]), tonumber(ARGV[first + 3])
  for key = place + 1, place + 2 do
    if age < 0 then
      redis.call('ZREM', KEYS[key], lease)
    else
      renew(KEYS[key], lease, age)
    end
  end
  if recipients > 0 then
    -- A server that was emptied hears again what is being asked.
    local entry = string.format('0|%.6f|0|%d', now + longest, recipients)
    for key = place + 3, place + 4 do
      if redis.call('HSETNX', KEYS[key], lease, entry) == 1 and redis.call('PTTL', KEYS[key]) < longest * 1000 then
        redis.call('PEXPIRE', KEYS[key], math.ceil(longest * 1000))
      end
    end
  end
end
return 1
