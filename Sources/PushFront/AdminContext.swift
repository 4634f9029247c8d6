import Hummingbird
import NIOCore

/// A request to the admin port, and whether it came from this machine.
struct AdminContext: RequestContext {
  var coreContext: CoreRequestContextStorage
  let isLocal: Bool

  init(source: ApplicationRequestContextSource) {
    coreContext = CoreRequestContextStorage(source: source)
    let client = source.channel.remoteAddress
    // An address of this machine is its own client's too.
    let isOwn = client?.ipAddress != nil && client?.ipAddress == source.channel.localAddress?.ipAddress
    isLocal = isOwn || client.map(AdminContext.isLoopback) ?? false
  }

  private static func isLoopback(_ address: SocketAddress) -> Bool {
    guard let text = address.ipAddress else { return false }
    // An IPv4 client of a socket that listens for IPv6 is written so.
    let plain = text.lowercased().hasPrefix("::ffff:") ? String(text.dropFirst(7)) : text
    return plain == "::1" || plain.hasPrefix("127.")
  }
}
