import COpenSSL
import Synchronization

/// The newest TLS session for each host of one client context, so that a reconnect needs no certificates.
@safe
final class TLSSessionCache: Sendable {
  /// One reference to an OpenSSL session; OpenSSL counts its references across threads.
  @safe
  private final class Session: @unchecked Sendable {
    let handle: OpaquePointer

    init(taking handle: OpaquePointer) {
      unsafe self.handle = unsafe handle
    }

    deinit {
      unsafe SSL_SESSION_free(handle)
    }
  }

  private let sessions = Mutex<[String: Session]>([:])
  private static let hostsMaximum = 64

  /// Takes over the caller's reference.
  func store(_ handle: OpaquePointer, host: String) {
    let session = unsafe Session(taking: handle)
    sessions.withLock { sessions in
      if sessions.count >= TLSSessionCache.hostsMaximum, sessions[host] == nil, let other = sessions.keys.first {
        sessions[other] = nil
      }
      sessions[host] = session
    }
  }

  /// Offers the host's session, if there is one, to a connection that has not started.
  func offer(to ssl: OpaquePointer, host: String) {
    // Under the lock: otherwise another thread's `store` may free the session before OpenSSL has its own reference.
    sessions.withLock { sessions in
      guard let session = sessions[host] else { return }
      unsafe SSL_set_session(ssl, session.handle)
    }
  }
}
