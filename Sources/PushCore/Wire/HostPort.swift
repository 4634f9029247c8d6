/// `host:port` as addresses and `:authority` have it.
package enum HostPort {
  /// An IPv6 address stands in brackets.
  package static func text(_ host: String, _ port: some FixedWidthInteger) -> String {
    host.utf8.contains(UInt8(ascii: ":")) ? "[\(host)]:\(port)" : "\(host):\(port)"
  }
}
