/// How many devices an audience had, and how they ended.
package struct AudienceSummary: Hashable, Sendable {
  package var devices: UInt64 = 0
  /// In the order of `PageEnd.all`.
  package private(set) var counts: [UInt64] = Array(repeating: 0, count: PageEnd.all.count)

  package init() {}

  package subscript(end: PageEnd) -> UInt64 {
    get { counts[AudienceSummary.index(end)] }
    set { counts[AudienceSummary.index(end)] = newValue }
  }

  package var settled: UInt64 { counts.reduce(0, +) }

  /// Devices whose push was sent, or was known to be in vain: those that APNs answered for good.
  package var sent: UInt64 {
    self[.outcome(.accepted)] + self[.outcome(.rejected)] + self[.outcome(.unregistered)]
  }

  private static func index(_ end: PageEnd) -> Int {
    guard let index = PageEnd.all.firstIndex(of: end) else { preconditionFailure("a device of a page is no audience") }
    return index
  }

  /// Appends `{"devices":3,"accepted":2,"unregistered":1}`: ends that nobody met are left out.
  package func append(to output: inout OutputSpan<UInt8>) {
    output.append(text: "{\"devices\":")
    output.append(decimal: Int64(clamping: devices))
    for (end, count) in zip(PageEnd.all, counts) where count > 0 {
      output.append(text: ",\"\(end.name)\":")
      output.append(decimal: Int64(clamping: count))
    }
    output.append(ASCII.closeBrace)
  }
}
