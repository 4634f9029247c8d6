import Hummingbird
import NIOCore
import PushIO

/// A request to the admin port, and who may have sent it.
struct AdminContext: RequestContext {
  var coreContext: CoreRequestContextStorage
  /// Both ends of its connection; nil: not TCP.
  private let ends: (client: SocketOwner.Place, server: SocketOwner.Place)?

  init(source: ApplicationRequestContextSource) {
    coreContext = CoreRequestContextStorage(source: source)
    let channel = source.channel
    if let client = AdminContext.place(channel.remoteAddress), let server = AdminContext.place(channel.localAddress) {
      ends = (client, server)
    } else {
      ends = nil
    }
  }

  /// The request comes from a process of root or of this process's user on this machine, or in this container. A loopback address alone is
  /// no proof: another user, or a proxy beside this process, connects from one too.
  var isOfOwnUser: Bool {
    guard let ends, let user = SocketOwner.user(client: ends.client, server: ends.server) else { return false }
    return user == 0 || user == SocketOwner.currentUser
  }

  private static func place(_ address: NIOCore.SocketAddress?) -> SocketOwner.Place? {
    guard let address, let ip = address.ipAddress, let port = address.port else { return nil }
    return SocketOwner.Place(ip, port: UInt16(truncatingIfNeeded: port))
  }
}
