-- GCRA on the server's clock, and whether marks stand. One round trip for all requests that wait at the time.
-- KEYS: rate clock, mark; rate clock, mark; ... ("" where no mark is asked about)
-- ARGV: milliseconds one unit takes, milliseconds of burst, units wanted; the same of the next; ...
-- Returns for each: allowed (1/0), units left, milliseconds until all are back, milliseconds to wait, mark (1/0)
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local rulings = {}
for n = 1, #KEYS / 2 do
  local clock, name = KEYS[2 * n - 1], KEYS[2 * n]
  local step, burst, cost = tonumber(ARGV[3 * n - 2]), tonumber(ARGV[3 * n - 1]), tonumber(ARGV[3 * n])
  local mark = 0
  if name ~= '' then mark = redis.call('EXISTS', name) end
  local due = math.max(tonumber(redis.call('GET', clock) or now), now)
  local after = due + step * cost
  if after - now > burst then
    local left = math.floor((burst - (due - now)) / step)
    rulings[n] = {0, left, math.ceil(due - now), math.ceil(after - now - burst), mark}
  else
    redis.call('SET', clock, string.format('%.3f', after), 'PX', math.max(1, math.ceil(after - now)))
    rulings[n] = {1, math.floor((burst - (after - now)) / step), math.ceil(after - now), 0, mark}
  end
end
return rulings
