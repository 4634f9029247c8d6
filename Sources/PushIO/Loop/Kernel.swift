/// What a loop and its transports ask of the machine: clocks, sockets, readiness. One for each loop.
///
/// `LinuxKernel` is this machine; a simulation has its own. Results are those of the system calls: where one fails, its `errno` negated.
package protocol Kernel: AnyObject {
  /// Nanoseconds of a clock that never goes back.
  var monotonicNanoseconds: Int64 { get }
  /// Milliseconds of the wall clock.
  var unixMilliseconds: Int64 { get }

  /// A non-blocking stream socket of the address's family.
  func makeSocket(for address: SocketAddress) -> Int32
  /// A socket that listens on the address; port 0: any.
  func listen(on address: SocketAddress, backlog: Int32) -> Int32
  /// A connection that waits at a listening socket, non-blocking.
  func accept(_ fileDescriptor: Int32) -> Int32
  /// A connected socket that was made elsewhere is to be used here.
  func adopt(_ fileDescriptor: Int32)
  func localAddress(of fileDescriptor: Int32) -> SocketAddress?
  func peerAddress(of fileDescriptor: Int32) -> SocketAddress?
  /// Begins to connect; `EINPROGRESS` where it goes on.
  func connect(_ fileDescriptor: Int32, to address: SocketAddress) -> Int32
  /// The error that a socket has to tell, cleared by the asking; 0: none.
  func takeError(of fileDescriptor: Int32) -> Int32
  /// Sets what a stream of ours wants: no delay, and probes after so long without a word.
  func tune(_ fileDescriptor: Int32, keepAliveSeconds: Int32)
  /// 0: the peer has ended.
  func receive(_ fileDescriptor: Int32, into buffer: UnsafeMutableRawBufferPointer) -> Int
  func send(_ fileDescriptor: Int32, _ bytes: UnsafeRawBufferPointer) -> Int
  /// Closes our half.
  func endWriting(_ fileDescriptor: Int32)
  func close(_ fileDescriptor: Int32)

  /// Watches a descriptor; events carry `data`.
  func watch(_ fileDescriptor: Int32, _ interest: Readiness, data: UInt64) -> Int32
  func change(_ fileDescriptor: Int32, _ interest: Readiness, data: UInt64) -> Int32
  func unwatch(_ fileDescriptor: Int32)
  /// Waits for events, so long at most. Returns how many there are.
  func wait(milliseconds: Int32) -> Int
  /// An event of the last wait.
  func event(_ index: Int) -> (data: UInt64, readiness: Readiness)
  /// Sleeps, less than a second.
  func sleep(nanoseconds: Int64)
}
