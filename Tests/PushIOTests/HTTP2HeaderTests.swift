import PushCore
import PushIO
import Testing

/// Header lists and names.
struct HTTP2HeaderTests {
  /// A header list as a server sees it.
  private func received(_ headers: borrowing HTTP2HeaderList) -> [String] {
    let pair = HTTP2MemoryPair.ready()
    #expect(
      pair.client.submit(
        headers, body: [], bodyRange: 0..<0, ticket: Ticket(index: 1, generation: 1), into: &pair.toServer))
    pair.deliverToServer()
    guard let stream = pair.requests.first else { return [] }
    return (0..<pair.server.headerCount(of: stream)).map { position in
      pair.server.withField(at: position, of: stream) { name, value in
        String(decoding: copy(name), as: UTF8.self) + "=" + String(decoding: copy(value), as: UTF8.self)
      }
    }
  }

  @Test func everyKnownNameIsRecognised() {
    var headers = HTTP2HeaderList()
    headers.append(.method, "POST")
    headers.append(.scheme, "https")
    headers.append(.authority, "a")
    headers.append(.path, "/")
    for name in HTTP2HeaderName.allCases.dropFirst(5) where name != .contentLength { headers.append(name, "v") }
    headers.append(.contentLength, decimal: 0)
    let pair = HTTP2MemoryPair.ready()
    #expect(
      pair.client.submit(
        headers, body: [], bodyRange: 0..<0, ticket: Ticket(index: 1, generation: 1), into: &pair.toServer))
    pair.deliverToServer()
    for name in HTTP2HeaderName.allCases where name != .status {
      #expect(pair.server.hasHeader(name, of: 1), "\(name.text)")
    }
    #expect(!pair.server.hasHeader(.status, of: 1))
    #expect(!pair.server.hasDuplicate(of: 1))
  }

  @Test func aListGrowsIsCutAndIsUsedAgain() {
    var headers = HTTP2HeaderList()
    for round in 0..<3 {
      headers.removeAll()
      headers.append(.method, "POST")
      headers.append(.scheme, "https")
      headers.append(.authority, Array("host\(round)".utf8).span)
      headers.append(.path, Array("/3/device/\(round)".utf8).span)
      let constant = headers.count
      for number in 0..<40 {
        headers.append(
          name: Array("x-\(number)".utf8).span, value: [UInt8](repeating: 0x61, count: 100).span)
      }
      #expect(headers.count == 44)
      headers.truncate(to: constant)
      headers.append(.apnsExpiration, decimal: 1_796_083_200, isIndexed: false)
      headers.append(.apnsPriority, decimal: -7)
      headers.append(.contentLength, decimal: 0)
      #expect(
        received(headers) == [
          ":method=POST", ":scheme=https", ":authority=host\(round)", ":path=/3/device/\(round)",
          "apns-expiration=1796083200", "apns-priority=-7", "content-length=0",
        ])
    }
  }

  /// Headers that must not fill the other side's table are written in full each time.
  @Test(arguments: [true, false])
  func onlyIndexedHeadersShrink(isIndexed: Bool) {
    let pair = HTTP2MemoryPair.ready()
    var headers = HTTP2HeaderList()
    headers.append(.method, "POST")
    headers.append(.scheme, "https")
    headers.append(.authority, "a")
    headers.append(.path, "/")
    headers.append(.apnsCollapseID, Array("0123456789012345678901234567890123456789".utf8).span, isIndexed: isIndexed)
    var sizes: [Int] = []
    for number in 1...3 {
      #expect(
        pair.client.submit(
          headers, body: [], bodyRange: 0..<0, ticket: Ticket(index: UInt32(number), generation: 1),
          into: &pair.toServer))
      sizes.append(pair.toServer.count)
      pair.deliverToServer()
    }
    #expect(isIndexed ? sizes[2] < 20 : sizes[2] > 40)
  }

  @Test func codesHaveNames() {
    #expect(HTTP2ErrorCode.refusedStream.description == "REFUSED_STREAM")
    #expect(HTTP2ErrorCode.http11Required.description == "HTTP_1_1_REQUIRED")
    #expect(HTTP2ErrorCode(rawValue: 0xff).description == "0xff")
  }
}
