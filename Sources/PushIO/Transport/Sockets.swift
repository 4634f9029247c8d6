/// Makes and configures non-blocking sockets.
import CLinux
import Glibc

/// A stream socket of the address's family: non-blocking, closed on exec. -1 with `errno` on failure.
func makeSocket(for address: SocketAddress) -> Int32 {
  socket(address.family, Int32(SOCK_STREAM.rawValue) | closeOnExec | nonBlocking, 0)
}

let closeOnExec = Int32(SOCK_CLOEXEC.rawValue)
let nonBlocking = Int32(SOCK_NONBLOCK.rawValue)

/// Sets an integer option. A kernel may refuse a tuning option; that is not an error.
func setOption(_ fileDescriptor: Int32, _ level: Int32, _ option: Int32, _ value: Int32) {
  var value = value
  _ = unsafe setsockopt(fileDescriptor, level, option, &value, socklen_t(MemoryLayout<Int32>.size))
}

/// Small writes are sent at once (we batch them ourselves), and a dead peer is detected.
func tuneStream(_ fileDescriptor: Int32, keepAliveSeconds: Int32) {
  let tcp = Int32(IPPROTO_TCP)
  setOption(fileDescriptor, tcp, TCP_NODELAY, 1)
  setOption(fileDescriptor, SOL_SOCKET, SO_KEEPALIVE, 1)
  setOption(fileDescriptor, tcp, TCP_KEEPIDLE, keepAliveSeconds)
  setOption(fileDescriptor, tcp, TCP_KEEPINTVL, 10)
  setOption(fileDescriptor, tcp, TCP_KEEPCNT, 3)
}

func makeNonBlocking(_ fileDescriptor: Int32) {
  let flags = fcntl(fileDescriptor, F_GETFL)
  _ = fcntl(fileDescriptor, F_SETFL, flags | O_NONBLOCK)
  _ = fcntl(fileDescriptor, F_SETFD, FD_CLOEXEC)
}

/// A socket's pending error, which this clears; 0: none.
func takeSocketError(_ fileDescriptor: Int32) -> Int32 {
  var code: Int32 = 0
  var size = socklen_t(MemoryLayout<Int32>.size)
  let result = unsafe getsockopt(fileDescriptor, SOL_SOCKET, SO_ERROR, &code, &size)
  return result == 0 ? code : errno
}

/// Two connected non-blocking sockets: a connection without a network.
package func makeSocketPair() throws(LoopError) -> (Int32, Int32) {
  var ends: (Int32, Int32) = (-1, -1)
  let code = unsafe withUnsafeMutableBytes(of: &ends) { bytes in
    let type = Int32(SOCK_STREAM.rawValue) | closeOnExec | nonBlocking
    return unsafe socketpair(AF_UNIX, type, 0, bytes.baseAddress?.assumingMemoryBound(to: Int32.self))
  }
  guard code == 0 else { throw LoopError(call: "socketpair", code: errno) }
  return ends
}
