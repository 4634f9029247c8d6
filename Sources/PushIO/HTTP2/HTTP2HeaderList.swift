import CNGHTTP2

/// The headers of a request or response. The list is reused: once it has grown to the usual size, nothing is allocated.
///
/// Pseudo-headers come first. Values are sent unchanged: the caller must keep out CR, LF and NUL.
@safe
package struct HTTP2HeaderList: ~Copyable {
  private var fields: UnsafeMutablePointer<nghttp2_nv>
  private var fieldCapacity = 24
  /// Holds the copied values, and names that are not constants.
  private var region: UnsafeMutablePointer<UInt8>
  private var regionCapacity = 1024
  private var regionCount = 0

  package private(set) var count = 0

  package init() {
    unsafe fields = .allocate(capacity: fieldCapacity)
    unsafe region = .allocate(capacity: regionCapacity)
  }

  deinit {
    unsafe fields.deallocate()
    unsafe region.deallocate()
  }

  package mutating func removeAll() {
    count = 0
    regionCount = 0
  }

  /// Keeps the first `newCount` headers, which all requests of a connection share.
  package mutating func truncate(to newCount: Int) {
    precondition(newCount >= 0 && newCount <= count)
    // Fields are stored in order, so the region ends where the last kept one ends.
    regionCount = 0
    for index in 0..<newCount {
      let field = unsafe fields[index]
      unsafe extendRegion(over: field.name, field.namelen)
      unsafe extendRegion(over: field.value, field.valuelen)
    }
    count = newCount
  }

  package mutating func append(_ name: HTTP2HeaderName, _ value: Span<UInt8>, isIndexed: Bool = true) {
    append(name.text, value, isIndexed: isIndexed)
  }

  package mutating func append(_ name: HTTP2HeaderName, _ value: StaticString, isIndexed: Bool = true) {
    append(name.text, value, isIndexed: isIndexed)
  }

  /// Appends a number, written in decimal.
  package mutating func append(_ name: HTTP2HeaderName, decimal: Int, isIndexed: Bool = true) {
    reserve(names: 0, values: 20)
    let start = regionCount
    var digits = decimal.magnitude
    repeat {
      unsafe region[regionCount] = UInt8(truncatingIfNeeded: 48 + digits % 10)
      regionCount += 1
      digits /= 10
    } while digits > 0
    if decimal < 0 {
      unsafe region[regionCount] = 45
      regionCount += 1
    }
    var written = unsafe UnsafeMutableBufferPointer(start: region + start, count: regionCount - start)
    unsafe written.reverse()
    unsafe appendField(
      name: UnsafeMutablePointer(mutating: name.text.utf8Start), nameCount: name.text.utf8CodeUnitCount,
      value: region + start, valueCount: regionCount - start, isIndexed: isIndexed)
  }

  /// Appends a header whose name is not a known one. Names are lower case.
  package mutating func append(_ name: StaticString, _ value: Span<UInt8>, isIndexed: Bool = true) {
    reserve(names: 0, values: value.count)
    let copy = unsafe copied(value)
    unsafe appendField(
      name: UnsafeMutablePointer(mutating: name.utf8Start), nameCount: name.utf8CodeUnitCount,
      value: copy, valueCount: value.count, isIndexed: isIndexed)
  }

  package mutating func append(_ name: StaticString, _ value: StaticString, isIndexed: Bool = true) {
    reserve(names: 0, values: 0)
    unsafe appendField(
      name: UnsafeMutablePointer(mutating: name.utf8Start), nameCount: name.utf8CodeUnitCount,
      value: UnsafeMutablePointer(mutating: value.utf8Start), valueCount: value.utf8CodeUnitCount,
      isIndexed: isIndexed)
  }

  package mutating func append(name: Span<UInt8>, value: Span<UInt8>, isIndexed: Bool = true) {
    reserve(names: name.count, values: value.count)
    let nameCopy = unsafe copied(name)
    let valueCopy = unsafe copied(value)
    unsafe appendField(
      name: nameCopy, nameCount: name.count, value: valueCopy, valueCount: value.count, isIndexed: isIndexed)
  }

  /// The list for nghttp2. Names and values are valid only until the list changes or is freed.
  borrowing func withFields<Result>(_ body: (UnsafeMutablePointer<nghttp2_nv>, Int) -> Result) -> Result {
    unsafe body(fields, count)
  }

  /// The same for a frame that is not written within the call: nghttp2 copies names and values.
  borrowing func withCopiedFields<Result>(_ body: (UnsafeMutablePointer<nghttp2_nv>, Int) -> Result) -> Result {
    let copies = UnsafeMutablePointer<nghttp2_nv>.allocate(capacity: count)
    defer { unsafe copies.deallocate() }
    unsafe copies.initialize(from: fields, count: count)
    for index in 0..<count { unsafe copies[index].flags = UInt8(NGHTTP2_NV_FLAG_NONE.rawValue) }
    return unsafe body(copies, count)
  }

  private mutating func appendField(
    name: UnsafeMutablePointer<UInt8>, nameCount: Int, value: UnsafeMutablePointer<UInt8>, valueCount: Int,
    isIndexed: Bool
  ) {
    // A list outlives the call that writes its frame, so nghttp2 need not copy.
    var flags = NGHTTP2_NV_FLAG_NO_COPY_NAME.rawValue | NGHTTP2_NV_FLAG_NO_COPY_VALUE.rawValue
    if !isIndexed { flags |= NGHTTP2_NV_FLAG_NO_INDEX.rawValue }
    unsafe (fields + count).initialize(
      to: nghttp2_nv(
        name: name, value: value, namelen: nameCount, valuelen: valueCount, flags: UInt8(truncatingIfNeeded: flags)))
    count += 1
  }

  /// Copies to the region's end; there must be room.
  private mutating func copied(_ bytes: Span<UInt8>) -> UnsafeMutablePointer<UInt8> {
    let target = unsafe region + regionCount
    unsafe bytes.withUnsafeBufferPointer { source in
      if let start = source.baseAddress { unsafe target.update(from: start, count: source.count) }
    }
    regionCount += bytes.count
    return unsafe target
  }

  /// Makes room for one more field and its bytes. Moves existing bytes and adjusts the fields' pointers.
  private mutating func reserve(names: Int, values: Int) {
    if count == fieldCapacity {
      let larger = UnsafeMutablePointer<nghttp2_nv>.allocate(capacity: fieldCapacity * 2)
      unsafe larger.update(from: fields, count: count)
      unsafe fields.deallocate()
      unsafe fields = larger
      fieldCapacity *= 2
    }
    let needed = regionCount + names + values
    if needed <= regionCapacity { return }
    while regionCapacity < needed { regionCapacity *= 2 }
    let larger = UnsafeMutablePointer<UInt8>.allocate(capacity: regionCapacity)
    unsafe larger.update(from: region, count: regionCount)
    for index in 0..<count {
      unsafe fields[index].name = moved(fields[index].name, to: larger)
      unsafe fields[index].value = moved(fields[index].value, to: larger)
    }
    unsafe region.deallocate()
    unsafe region = larger
  }

  private func moved(
    _ pointer: UnsafeMutablePointer<UInt8>, to larger: UnsafeMutablePointer<UInt8>
  ) -> UnsafeMutablePointer<UInt8> {
    unsafe isInRegion(pointer) ? larger + (pointer - region) : pointer
  }

  private func isInRegion(_ pointer: UnsafeMutablePointer<UInt8>) -> Bool {
    unsafe pointer >= region && pointer <= region + regionCapacity
  }

  private mutating func extendRegion(over pointer: UnsafeMutablePointer<UInt8>, _ byteCount: Int) {
    if unsafe isInRegion(pointer) { regionCount = unsafe max(regionCount, pointer - region + byteCount) }
  }
}
