extension DeviceRecord {
  /// The registration that creates this record for an unknown device, as one line of JSON. It leaves out the tokens'
  /// own times and the gone tokens: a registration has one time.
  package func registration(in scope: AppScope) -> [UInt8] {
    var writer = RegistrationWriter()
    writer.bytes.append(text: "{\"version\":1,\"kind\":\"device\",\"at\":")
    writer.bytes.append(decimal: at)
    writer.add("app", scope.app)
    writer.add("environment", scope.environment.name)
    writer.add("device", id)
    if let user { writer.add("user", user) }
    if let token { writer.add("token", Hex.text(token.bytes)) }
    if !startTokens.isEmpty {
      writer.key("push_to_start")
      writer.members(startTokens) { writer, start in
        writer.string(start.type)
        writer.bytes.append(ASCII.colon)
        writer.string(Hex.text(start.token.bytes))
      }
    }
    if let locale { writer.add("locale", locale) }
    if let osVersion { writer.add("os_version", osVersion.text) }
    if let timeZone { writer.add("time_zone", timeZone) }
    if !tags.isEmpty {
      writer.key("tags")
      writer.members(tags) { writer, tag in
        writer.string(tag.name)
        writer.bytes.append(ASCII.colon)
        writer.value(tag.value)
      }
    }
    writer.bytes.append(ASCII.closeBrace)
    return writer.bytes
  }
}

/// Appends members of a registration's JSON.
private struct RegistrationWriter {
  var bytes: [UInt8] = []

  mutating func string(_ text: String) {
    bytes.append(jsonString: text)
  }

  mutating func key(_ name: String) {
    bytes.append(ASCII.comma)
    string(name)
    bytes.append(ASCII.colon)
  }

  mutating func add(_ name: String, _ text: String) {
    key(name)
    string(text)
  }

  mutating func members<Member>(_ members: [Member], _ write: (inout RegistrationWriter, Member) -> Void) {
    bytes.append(ASCII.openBrace)
    for (index, member) in members.enumerated() {
      if index > 0 { bytes.append(ASCII.comma) }
      write(&self, member)
    }
    bytes.append(ASCII.closeBrace)
  }

  mutating func value(_ value: TagValue) {
    switch value {
    case .text(let text): string(text)
    case .flag(let flag): bytes.append(text: flag ? "true" : "false")
    case .number(let number):
      if let integer = Int64(exactly: number), integer.magnitude <= DeviceLimits.exactIntegerMaximum.magnitude {
        bytes.append(decimal: integer)
      } else {
        bytes.append(text: number.description)
      }
    case .list(let texts):
      bytes.append(ASCII.openBracket)
      for (index, text) in texts.enumerated() {
        if index > 0 { bytes.append(ASCII.comma) }
        string(text)
      }
      bytes.append(ASCII.closeBracket)
    }
  }
}
