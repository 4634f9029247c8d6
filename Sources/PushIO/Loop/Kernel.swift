/// The system calls of a loop and its transports: clocks, sockets, readiness. One for each loop.
///
/// `LinuxKernel` makes real calls; a simulation has its own kernel. Results are those of the system calls; a failure is the negated
/// `errno`.
package protocol Kernel: AnyObject {
  /// Nanoseconds of a monotonic clock.
  var monotonicNanoseconds: Int64 { get }
  /// Milliseconds of the wall clock.
  var unixMilliseconds: Int64 { get }

  /// A non-blocking stream socket of the address's family.
  func makeSocket(for address: SocketAddress) -> Int32
  /// A socket that listens on the address; port 0: any.
  func listen(on address: SocketAddress, backlog: Int32) -> Int32
  /// A waiting connection of a listening socket, non-blocking.
  func accept(_ fileDescriptor: Int32) -> Int32
  /// A connected socket that was made elsewhere will be used here.
  func adopt(_ fileDescriptor: Int32)
  func localAddress(of fileDescriptor: Int32) -> SocketAddress?
  func peerAddress(of fileDescriptor: Int32) -> SocketAddress?
  /// Starts to connect; `EINPROGRESS` if it continues.
  func connect(_ fileDescriptor: Int32, to address: SocketAddress) -> Int32
  /// A socket's pending error, which this clears; 0: none.
  func takeError(of fileDescriptor: Int32) -> Int32
  /// Sets the options of a stream: no delay, and keep-alive probes after this long without a byte.
  func tune(_ fileDescriptor: Int32, keepAliveSeconds: Int32)
  /// 0: the peer has ended its direction.
  func receive(_ fileDescriptor: Int32, into buffer: UnsafeMutableRawBufferPointer) -> Int
  func send(_ fileDescriptor: Int32, _ bytes: UnsafeRawBufferPointer) -> Int
  /// Closes our direction.
  func endWriting(_ fileDescriptor: Int32)
  func close(_ fileDescriptor: Int32)

  /// Watches a descriptor; events carry `data`.
  func watch(_ fileDescriptor: Int32, _ interest: Readiness, data: UInt64) -> Int32
  func change(_ fileDescriptor: Int32, _ interest: Readiness, data: UInt64) -> Int32
  func unwatch(_ fileDescriptor: Int32)
  /// Waits for events, at most this long. Returns their number.
  func wait(milliseconds: Int32) -> Int
  /// An event of the last wait.
  func event(_ index: Int) -> (data: UInt64, readiness: Readiness)
  /// Sleeps, less than a second.
  func sleep(nanoseconds: Int64)
}
