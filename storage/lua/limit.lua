-- GCRA on the server's clock, and whether marks stand. One round trip for all requests that wait at the time.
-- KEYS: rate clocks and marks
-- ARGV: a JSON list with, for each: [place of its rate clock in KEYS, place of its mark (0: it asks about none),
--       milliseconds one unit takes, milliseconds of burst, units wanted]
-- Returns for each: allowed (1/0), units left, milliseconds until all are back, milliseconds to wait, mark (1/0)
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local rulings = {}
for n, ask in ipairs(cjson.decode(ARGV[1])) do
  local clock, name, step, burst, cost = KEYS[ask[1]], KEYS[ask[2]], ask[3], ask[4], ask[5]
  local mark = 0
  if name then mark = redis.call('EXISTS', name) end
  local due = math.max(tonumber(redis.call('GET', clock) or now), now)
  due = math.min(due, now + burst)  -- the server's clock may have been set back
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
