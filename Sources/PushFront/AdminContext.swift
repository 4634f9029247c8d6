import Hummingbird
import NIOCore

/// A request to the admin port, and whether it came from this machine.
struct AdminContext: RequestContext {
  var coreContext: CoreRequestContextStorage
  let isLocal: Bool

  init(source: ApplicationRequestContextSource) {
    coreContext = CoreRequestContextStorage(source: source)
    let client = source.channel.remoteAddress
    // A client that connects from one of this machine's addresses is local too.
    let isOwn = client?.ipAddress != nil && client?.ipAddress == source.channel.localAddress?.ipAddress
    isLocal = isOwn || client.map(AdminContext.isLoopback) ?? false
  }

  private static func isLoopback(_ address: SocketAddress) -> Bool {
    guard let text = address.ipAddress else { return false }
    // The form of an IPv4 client's address on a socket that listens for IPv6.
    let plain = text.lowercased().hasPrefix("::ffff:") ? String(text.dropFirst(7)) : text
    return plain == "::1" || plain.hasPrefix("127.")
  }
}
