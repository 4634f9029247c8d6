import Foundation

/// The value of a string field in JSON that this world wrote or a lane rewrote: enough for an auditor, and not the lane's parser. It
/// searches with Foundation, which is fast in debug builds too: they play hundreds of runs.
func field(_ name: String, _ body: [UInt8]) -> String {
  let body = Data(body)
  guard let start = body.range(of: Data("\"\(name)\":\"".utf8))?.upperBound else { return "" }
  return text(from: start, in: body)
}

func has(_ text: String, _ body: [UInt8]) -> Bool {
  Data(body).range(of: Data(text.utf8)) != nil
}

/// The targets of a job of this world.
func targets(_ body: [UInt8]) -> [Target] {
  let job = field("id", body)
  let token = field("token", body)
  let devices = ordinals(body)
  guard devices.isEmpty else { return devices.map { Target(job: job, token: RegistryServer.token($0)) } }
  return (token.isEmpty ? elements("tokens", body) : [token]).map { Target(job: job, token: $0) }
}

/// The devices of a page.
private func ordinals(_ body: [UInt8]) -> [UInt32] {
  let body = Data(body)
  guard let start = body.range(of: Data("\"ordinals\":[".utf8))?.upperBound,
    let end = body.range(of: Data("]".utf8), in: start..<body.endIndex)?.lowerBound
  else { return [] }
  return String(decoding: body[start..<end], as: UTF8.self).split(separator: ",").compactMap { UInt32($0) }
}

/// The target of an outcome: a token, or a device, whose name contains its token.
func outcomeTarget(_ body: [UInt8]) -> Target {
  let device = field("device", body)
  let token = device.isEmpty ? field("token", body) : String(device.dropFirst("device-".count))
  return Target(job: field("job_id", body), token: token)
}

/// The number in a field.
func number(_ name: String, _ body: [UInt8]) -> Int {
  let body = Data(body)
  guard let start = body.range(of: Data("\"\(name)\":".utf8))?.upperBound else { return 0 }
  return Int(String(decoding: body[start...].prefix { $0 >= 0x30 && $0 <= 0x39 }, as: UTF8.self)) ?? 0
}

/// The strings of an array field.
private func elements(_ name: String, _ body: [UInt8]) -> [String] {
  let body = Data(body)
  guard let start = body.range(of: Data("\"\(name)\":[".utf8))?.upperBound,
    let end = body.range(of: Data("]".utf8), in: start..<body.endIndex)?.lowerBound
  else { return [] }
  var strings: [String] = []
  var position = start
  while let next = body.range(of: Data("\"".utf8), in: position..<end)?.upperBound {
    strings.append(text(from: next, in: body))
    position = next + strings[strings.count - 1].utf8.count + 1
  }
  return strings
}

private func text(from start: Int, in body: Data) -> String {
  let end = body.range(of: Data("\"".utf8), in: start..<body.endIndex)?.lowerBound ?? body.endIndex
  return String(decoding: body[start..<end], as: UTF8.self)
}
