/// `host:port` as in addresses and `:authority`.
package enum HostPort {
  /// An IPv6 address gets brackets.
  package static func text(_ host: String, _ port: some FixedWidthInteger) -> String {
    host.utf8.contains(UInt8(ascii: ":")) ? "[\(host)]:\(port)" : "\(host):\(port)"
  }
}
