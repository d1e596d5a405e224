-- Renews the leases of sessions under way; one that is over by now stays so.
--
-- Keys, four per lease: sessions, address, asked, asked; grant.lua says what they hold.
-- ARGV: now ("" = this server's clock), lease seconds; then three per lease: its name, its recipients where they
--       count as asked, else 0, and for how many seconds more they do

local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] + time[2] / 1e6
end
local seconds = tonumber(ARGV[2])
local stop = string.format('%.6f', now + seconds)

for number = 0, #KEYS / 4 - 1 do
  local first = 3 + number * 3
  local lease, recipients, longest = ARGV[first], tonumber(ARGV[first + 1]), tonumber(ARGV[first + 2])
  for place = number * 4 + 1, number * 4 + 2 do
    if redis.call('ZADD', KEYS[place], 'XX', 'CH', stop, lease) == 1 then
      redis.call('PEXPIRE', KEYS[place], math.ceil(seconds * 1000))
    end
  end
  if recipients > 0 then
    -- A server that was emptied hears again what is being asked.
    local entry = string.format('0|%.6f|0|%d', now + longest, recipients)
    for place = number * 4 + 3, number * 4 + 4 do
      if redis.call('HSETNX', KEYS[place], lease, entry) == 1 and redis.call('PTTL', KEYS[place]) < longest * 1000 then
        redis.call('PEXPIRE', KEYS[place], math.ceil(longest * 1000))
      end
    end
  end
end
