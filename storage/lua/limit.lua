-- GCRA on the server's clock, and whether a mark stands. One round trip of an API request.
-- KEYS: rate clock; mark ("" for none)
-- ARGV: milliseconds one unit takes, milliseconds of burst, units wanted
-- Returns: allowed (1/0), units left, milliseconds until all are back, milliseconds to wait, mark (1/0)
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local step, burst, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local mark = 0
if KEYS[2] then mark = redis.call('EXISTS', KEYS[2]) end
local due = math.max(tonumber(redis.call('GET', KEYS[1]) or now), now)
local after = due + step * cost
if after - now > burst then
  return {0, math.floor((burst - (due - now)) / step), math.ceil(due - now), math.ceil(after - now - burst), mark}
end
redis.call('SET', KEYS[1], string.format('%.3f', after), 'PX', math.max(1, math.ceil(after - now)))
return {1, math.floor((burst - (after - now)) / step), math.ceil(after - now), 0, mark}
