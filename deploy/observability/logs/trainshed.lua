-- Reads the lines of jobs' logs for Vector and Fluent Bit (docs/how-to/observe.md).
--
-- A line is a JSON array: [ns since 1970, task, severity, stream, text, trial].  Its file is
-- jobs/UID/ATTEMPT/log/NUMBER.jsonl; job.json beside the folder of the log has the names of the job.
-- Other files, such as runner.txt of a supervisor that failed, are lines of text.

local ESCAPES = { b = "\b", f = "\f", n = "\n", r = "\r", t = "\t" }
local NAMES_MAX = 10000
local FILE_BYTES_MAX = 65536 -- job.json is smaller, unless a program of the job has replaced it
local REPLACEMENT = "\239\191\189" -- U+FFFD, for half of a pair of UTF-16

local names_by_folder, names_count = {}, 0

local function encode_utf8(code)
  if code < 0x80 then
    return string.char(code)
  elseif code < 0x800 then
    return string.char(0xC0 + math.floor(code / 64), 0x80 + code % 64)
  elseif code >= 0xD800 and code <= 0xDFFF then
    return REPLACEMENT
  end
  return string.char(
    0xE0 + math.floor(code / 4096), 0x80 + math.floor(code / 64) % 64, 0x80 + code % 64)
end

-- Return the JSON string that begins at a quote, and the position after it; nil if it has no end.
local function read_string(text, quote)
  local parts, from = {}, quote + 1
  while true do
    local stop = text:find('["\\]', from)
    if not stop then
      return nil
    end
    parts[#parts + 1] = text:sub(from, stop - 1)
    if text:sub(stop, stop) == '"' then
      return table.concat(parts), stop + 1
    end
    local escape = text:sub(stop + 1, stop + 1)
    if escape == "u" then
      local code = tonumber(text:sub(stop + 2, stop + 5), 16)
      if not code then
        return nil
      end
      parts[#parts + 1] = encode_utf8(code)
      from = stop + 6
    else
      parts[#parts + 1] = ESCAPES[escape] or escape
      from = stop + 2
    end
  end
end

-- Return the fields of a line; nil if it is no line of a log.
local function read_array(line)
  local stamp_ns, at = line:match('^%[(%d+), ()"')
  if not stamp_ns then
    return nil
  end
  local values = {}
  for index = 1, 5 do
    values[index], at = read_string(line, at)
    if not values[index] then
      return nil
    end
    at = at + 2 -- the comma and the space
  end
  local task, severity, stream, text, trial = (table.unpack or unpack)(values)
  return {
    stamp_ns = stamp_ns, task = task, severity = severity, stream = stream, message = text,
    trial = trial ~= "" and trial or nil,
  }
end

local function read_names(folder)
  local file = io.open(folder .. "/job.json", "r")
  if not file then
    return {}
  end
  local text, names = file:read(FILE_BYTES_MAX) or "", {}
  file:close()
  for _, name in ipairs({ "project", "job", "creator" }) do
    local quote = text:match('"' .. name .. '": ()"')
    names[name] = quote and read_string(text, quote) or nil
  end
  return names
end

local function find_names(folder)
  if not names_by_folder[folder] then
    if names_count >= NAMES_MAX then
      names_by_folder, names_count = {}, 0
    end
    names_by_folder[folder], names_count = read_names(folder), names_count + 1
  end
  return names_by_folder[folder]
end

-- Return the fields of a line of a file below jobs/UID/ATTEMPT.
function read_fields(line, path)
  local fields = read_array(line) or { message = line, severity = "ERROR", task = "service" }
  local folder, uid, attempt = path:match("^(.*/jobs/(%d+)/(%d+))/")
  if folder then
    fields.uid, fields.attempt = uid, tonumber(attempt)
    for name, value in pairs(find_names(folder)) do
      fields[name] = value
    end
  end
  return fields
end

-- The filter of Fluent Bit, with time_as_table.
function read_record(_, timestamp, record)
  local fields = read_fields(record.log or "", record.file or "")
  local stamp_ns = fields.stamp_ns
  if stamp_ns then
    timestamp = { sec = tonumber(stamp_ns:sub(1, -10)), nsec = tonumber(stamp_ns:sub(-9)) }
  end
  fields.stamp_ns = nil
  return 1, timestamp, fields
end

-- The transform of Vector.
function read_event(event, emit)
  for name, value in pairs(read_fields(event.log.message, event.log.file)) do
    event.log[name] = value
  end
  emit(event)
end
