import Glibc
import PushCore

/// Bytes that wait to be parsed or written: one contiguous region, appended at its end and consumed at its start.
///
/// It grows by doubling, after it moved the rest to the front. It frees a large region that was emptied often without having to grow, so a
/// steady large load does not allocate, and memory for a burst is freed. It has no memory before its first byte and after `releaseMemory`,
/// so hundreds of quiet connections cost little. Its owner must limit it: check `count` before you append for a slow peer.
@safe
package struct ByteQueue: ~Copyable {
  private var base: UnsafeMutablePointer<UInt8>
  private var capacity: Int
  private var start = 0
  private var end = 0
  /// How often it was emptied since it last grew, while its region is large.
  private var emptyings = 0

  /// Capacity of its first region.
  private static let initialCapacity = 1024
  /// A region up to this size is never freed.
  private static let retainedCapacity = 1024 * 1024
  /// A larger region is freed after this many emptyings.
  private static let emptyingsUntilShrink = 64

  package init() {
    unsafe base = .allocate(capacity: 0)
    capacity = 0
  }

  deinit {
    unsafe base.deallocate()
  }

  package var count: Int { end - start }
  package var isEmpty: Bool { start == end }

  /// Makes room for `count` more bytes at the end.
  package mutating func reserve(_ count: Int) {
    if capacity - end >= count { return }
    let used = end - start
    if start > 0, capacity - used >= count, start >= used {
      unsafe base.update(from: base + start, count: used)
    } else {
      var newCapacity = max(capacity, ByteQueue.initialCapacity)
      while newCapacity - used < count { newCapacity *= 2 }
      let newBase = UnsafeMutablePointer<UInt8>.allocate(capacity: newCapacity)
      unsafe newBase.update(from: base + start, count: used)
      unsafe base.deallocate()
      unsafe base = newBase
      capacity = newCapacity
      emptyings = 0
    }
    start = 0
    end = used
  }

  package mutating func append(_ byte: UInt8) {
    reserve(1)
    unsafe base[end] = byte
    end += 1
  }

  package mutating func append(_ bytes: Span<UInt8>) {
    unsafe bytes.withUnsafeBufferPointer { unsafe append($0) }
  }

  package mutating func append(_ bytes: StaticString) {
    unsafe append(UnsafeBufferPointer(start: bytes.utf8Start, count: bytes.utf8CodeUnitCount))
  }

  package mutating func append(_ text: String) {
    for byte in text.utf8 { append(byte) }
  }

  mutating func append(_ bytes: UnsafeBufferPointer<UInt8>) {
    guard let source = bytes.baseAddress, bytes.count > 0 else { return }
    reserve(bytes.count)
    unsafe (base + end).update(from: source, count: bytes.count)
    end += bytes.count
  }

  package mutating func appendBigEndian<Value: FixedWidthInteger>(_ value: Value) {
    let size = MemoryLayout<Value>.size
    reserve(size)
    unsafe UnsafeMutableRawPointer(base + end).storeBytes(of: value.bigEndian, as: Value.self)
    end += size
  }

  /// Overwrites four bytes at `offset` from the start: for lengths that are known last.
  package mutating func replaceBigEndian(_ value: UInt32, at offset: Int) {
    precondition(offset >= 0 && offset + 4 <= count)
    unsafe UnsafeMutableRawPointer(base + start + offset).storeBytes(of: value.bigEndian, as: UInt32.self)
  }

  /// Removes the first `count` bytes.
  package mutating func consume(_ count: Int) {
    precondition(count >= 0 && count <= end - start)
    start += count
    if start == end {
      start = 0
      end = 0
      if capacity > ByteQueue.retainedCapacity { shrinkIfOversized() }
    }
  }

  /// Removes bytes from the middle; `range` counts from the first byte.
  mutating func remove(_ range: Range<Int>) {
    precondition(range.lowerBound >= 0 && range.upperBound <= count)
    unsafe (base + start + range.lowerBound).update(
      from: base + start + range.upperBound, count: count - range.upperBound)
    end -= range.count
  }

  private mutating func shrinkIfOversized() {
    emptyings += 1
    guard emptyings >= ByteQueue.emptyingsUntilShrink else { return }
    releaseMemory()
  }

  /// Frees its region if it is empty, during a time without bytes.
  package mutating func releaseMemory() {
    if isEmpty { self = ByteQueue() }
  }

  package mutating func removeAll() {
    consume(count)
  }

  /// The waiting bytes. The span must not outlive the call.
  package func withBytes<Result, Failure: Error>(
    _ body: (Span<UInt8>) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    try body(unsafe UnsafeBufferPointer(start: base + start, count: end - start).span)
  }

  /// The waiting bytes, for libraries that copy them. The span must not outlive the call.
  package func withRawBytes<Result>(_ body: (RawSpan) -> Result) -> Result {
    body(unsafe UnsafeRawBufferPointer(start: base + start, count: end - start).bytes)
  }

  /// The waiting bytes, for C. The pointer must not outlive the call.
  func withUnsafeBytes<Result, Failure: Error>(
    _ body: (UnsafeBufferPointer<UInt8>) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    try unsafe body(UnsafeBufferPointer(start: base + start, count: end - start))
  }

  /// Lets `body` write up to `capacity` bytes at the end and return how many it wrote.
  mutating func appendUnsafe(
    capacity wanted: Int,
    _ body: (UnsafeMutableBufferPointer<UInt8>) -> Int
  ) -> Int {
    reserve(wanted)
    let written = unsafe body(UnsafeMutableBufferPointer(start: base + end, count: capacity - end))
    precondition(written >= 0 && written <= capacity - end)
    end += written
    return written
  }
}
