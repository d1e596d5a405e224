-- Renews the leases of sessions under way; one that is over by now stays so.
--
-- Keys, two per lease: sessions, address; grant.lua says what they hold.
-- ARGV: now ("" = this server's clock), lease seconds; then the leases

local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] + time[2] / 1e6
end
local seconds = tonumber(ARGV[2])
local stop = string.format('%.6f', now + seconds)

for number, key in ipairs(KEYS) do
  local lease = ARGV[2 + math.ceil(number / 2)]
  if redis.call('ZADD', key, 'XX', 'CH', stop, lease) == 1 then
    redis.call('PEXPIRE', key, math.ceil(seconds * 1000))
  end
end
