extension SegmentFilter {
  /// The filter in JSON, without spaces, keys in a fixed order: equal filters give equal bytes.
  package var json: [UInt8] {
    var bytes: [UInt8] = []
    append(to: &bytes)
    return bytes
  }

  private func append(to bytes: inout [UInt8]) {
    switch self {
    case .all(let filters): SegmentFilter.append("all", filters, to: &bytes)
    case .any(let filters): SegmentFilter.append("any", filters, to: &bytes)
    case .not(let filter):
      bytes.append(text: "{\"not\":")
      filter.append(to: &bytes)
      bytes.append(text: "}")
    case .leaf(let condition): condition.append(to: &bytes)
    }
  }

  private static func append(_ name: String, _ filters: [SegmentFilter], to bytes: inout [UInt8]) {
    bytes.append(text: "{\"\(name)\":[")
    for (index, filter) in filters.enumerated() {
      if index > 0 { bytes.append(text: ",") }
      filter.append(to: &bytes)
    }
    bytes.append(text: "]}")
  }
}

extension SegmentCondition {
  fileprivate func append(to bytes: inout [UInt8]) {
    func member(_ name: String, _ text: String) {
      bytes.append(text: "{\"\(name)\":")
      bytes.append(jsonString: text)
    }
    switch self {
    case .tagIs(let tag, let value):
      member("tag", tag)
      bytes.append(text: ",\"is\":")
      value.append(to: &bytes)
    case .tagIn(let tag, let values):
      member("tag", tag)
      bytes.append(text: ",\"in\":[")
      for (index, value) in values.enumerated() {
        if index > 0 { bytes.append(text: ",") }
        value.append(to: &bytes)
      }
      bytes.append(text: "]")
    case .tagAtLeast(let tag, let number):
      member("tag", tag)
      bytes.append(text: ",\"at_least\":")
      SegmentValue.number(number).append(to: &bytes)
    case .tagAtMost(let tag, let number):
      member("tag", tag)
      bytes.append(text: ",\"at_most\":")
      SegmentValue.number(number).append(to: &bytes)
    case .tagExists(let tag):
      member("tag", tag)
      bytes.append(text: ",\"exists\":true")
    case .locale(let locale): member("locale", locale)
    case .osAtLeast(let version): member("os_at_least", version.text)
    case .seenWithin(let days): member("seen_within", "\(days)d")
    case .hasToken: member("has", "token")
    case .hasPushToStart(let type): member("has", "push_to_start:\(type)")
    case .segment(let code): member("segment", code.text)
    }
    bytes.append(text: "}")
  }
}

extension SegmentValue {
  fileprivate func append(to bytes: inout [UInt8]) {
    switch self {
    case .text(let text): bytes.append(jsonString: text)
    case .flag(let flag): bytes.append(text: flag ? "true" : "false")
    case .number(let number):
      if number.magnitude <= 9_007_199_254_740_992, Double(Int64(number)) == number {
        bytes.append(decimal: Int64(number))
      } else {
        // The shortest text that parses to the same number; valid JSON for finite numbers.
        bytes.append(text: number.description)
      }
    }
  }
}
