/// Channel requests and answers as values: their bytes, and the texts of failures.
import PushCore
import Testing

@Suite struct ChannelValueTests {
  static let scope = AppScope(app: "com.example.app", environment: .sandbox)!
  static let id = ChannelID(text: "dHN0LXNyY2gtY2hubA==")!
  static let requestID = UUIDValue(Array("2288cf3f-70d8-46a6-97d7-dd5d00867127".utf8).span)!

  private func read(
    _ operation: ChannelRequest.Operation, id: String = "", body: String = ""
  ) throws(ChannelAnswer.Fault) -> ChannelAnswer.Content {
    try ChannelAnswer(
      to: operation, channelID: Array(id.utf8).span, body: Array(body.utf8).span,
      requestID: ChannelValueTests.requestID
    ).content
  }

  @Test(arguments: ["", "a b", "com.example.app/x", "com.exämple", String(repeating: "a", count: 201)])
  func refusesApps(_ app: String) {
    #expect(AppScope(app: app, environment: .production) == nil)
  }

  @Test(arguments: ["", "a b", "###", String(repeating: "A", count: 129)])
  func refusesIDs(_ text: String) {
    #expect(ChannelID(text: text) == nil)
  }

  @Test func namesPolicies() {
    for policy in StoragePolicy.allCases { #expect(StoragePolicy(name: policy.name) == policy) }
    #expect(StoragePolicy(name: "all") == nil)
    #expect(StoragePolicy(rawValue: 1) == .mostRecent)
  }

  /// The four requests of Apple's page, "Sending channel management requests to APNs".
  @Test(
    arguments: [
      (.create(.none), "POST", "channels", #"{"message-storage-policy":0,"push-type":"LiveActivity"}"#, nil),
      (.create(.mostRecent), "POST", "channels", #"{"message-storage-policy":1,"push-type":"LiveActivity"}"#, nil),
      (.read(id), "GET", "channels", "", id), (.delete(id), "DELETE", "channels", "", id),
      (.list, "GET", "all-channels", "", nil),
    ] as [(ChannelRequest.Operation, String, String, String, ChannelID?)])
  func asks(_ operation: ChannelRequest.Operation, _ method: String, _ tail: String, _ body: String, _ id: ChannelID?) {
    let request = ChannelRequest(operation, in: ChannelValueTests.scope)
    #expect("\(request.method)" == method)
    #expect(request.path == "/1/apps/com.example.app/\(tail)")
    #expect(String(decoding: request.body, as: UTF8.self) == body)
    #expect(request.channelID == id)
    #expect(request.isRepeatable == (method != "POST"))
  }

  @Test func readsAnswers() throws {
    #expect(try read(.create(.none), id: "dHN0LXNyY2gtY2hubA==") == .created(ChannelValueTests.id))
    #expect(
      try read(.read(ChannelValueTests.id), body: #" {"push-type": "LiveActivity", "message-storage-policy": 1} "#)
        == .read(.mostRecent))
    #expect(try read(.delete(ChannelValueTests.id)) == .deleted)
    #expect(try read(.list, body: #"{"channels": []}"#) == .listed([]))
    #expect(
      try read(.list, body: #"{"new":[{"a":1}],"channels":["dHN0LXNyY2gtY2hubA==", "a\/b="]}"#)
        == .listed([ChannelValueTests.id, ChannelID(text: "a/b=")!]))
  }

  @Test(
    arguments: [
      (.create(.none), "", "", "it has no apns-channel-id"),
      (.create(.none), "?", "", "its apns-channel-id is no base64"),
      (.read(id), "", "", "its body cannot be read at byte 0: ends too early"),
      (.read(id), "", "{}", "its body has no message-storage-policy"),
      (.read(id), "", #"{"message-storage-policy":2}"#, "its message-storage-policy is 2, and only 0 and 1 are known"),
      (.read(id), "", #"{"message-storage-policy":"1"}"#, "its body cannot be read at byte 26: not a JSON number"),
      (.list, "", "{}", "its body has no list of channels"),
      (.list, "", #"{"channels":{}}"#, "its body cannot be read at byte 12: a value must begin here"),
      (.list, "", #"{"channels":["a b"]}"#, "its body cannot be read at byte 13: a value must begin here"),
      (.list, "", #"{"channels":["AAAA","#, "its body cannot be read at byte 20: a value must begin here"),
    ] as [(ChannelRequest.Operation, String, String, String)])
  func saysWhatIsWrong(_ operation: ChannelRequest.Operation, _ id: String, _ body: String, _ text: String) {
    #expect(throws: ChannelAnswer.Fault(text)) { try read(operation, id: id, body: body) }
  }

  @Test func readsTenThousandIDs() throws {
    let ids = (0..<ChannelLimit.apple).map { _ in String(repeating: "A", count: Limits.channelBytesMaximum) }
    let body = "{\"channels\":[" + ids.map { "\"\($0)\"" }.joined(separator: ",") + "]}"
    #expect(body.utf8.count < ChannelAnswer.bodyBytesMaximum)
    guard case .listed(let read) = try read(.list, body: body) else { throw ChannelAnswer.Fault("not a list") }
    #expect(read.count == ChannelLimit.apple)
  }

  @Test func readsRequestIDsOfEitherCase() {
    let text = "2288CF3F-70D8-46A6-97D7-DD5D00867127"
    #expect(ChannelAnswer.requestID(Array(text.utf8).span) == ChannelValueTests.requestID)
    #expect(ChannelAnswer.requestID(Array(text.dropLast().utf8).span) == nil)
    let none: [UInt8] = []
    #expect(ChannelAnswer.requestID(none.span) == nil)
  }

  @Test func drawsRequestIDs() {
    var random = SeededRandom(seed: 1)
    let one = UUIDValue.version4(&random).text
    let other = UUIDValue.version4(&random).text
    #expect(one != other)
    #expect(Array(one)[14] == "4" && "89ab".contains(Array(one)[19]))
  }

  // MARK: Failures

  private func failure(
    _ operation: ChannelRequest.Operation, _ kind: ChannelFailure.Kind, host: String? = "api:2195"
  ) -> ChannelFailure {
    ChannelFailure(
      kind,
      request: ChannelRequest(operation, in: ChannelValueTests.scope, requestID: ChannelValueTests.requestID),
      host: host)
  }

  @Test func tellsFailures() {
    let limit = failure(.create(.none), .refused(status: 400, reason: .cannotCreateChannelConfig))
    #expect(
      limit.description == """
        could not create a channel of com.example.app in sandbox: api:2195 answered 400 CannotCreateChannelConfig \
        (apns-request-id 2288cf3f-70d8-46a6-97d7-dd5d00867127); com.example.app in sandbox has its 10000 channels, or its \
        channels cannot be configured so: delete those whose events are over (herald channels list, herald channels \
        delete), then try again
        """)
    #expect(limit.isLimitReached && !limit.isTemporary && !limit.isAmbiguous)
    let lost = failure(.create(.none), .unanswered(text: "the connection was lost"))
    #expect(lost.isAmbiguous && lost.isTemporary)
    #expect(
      lost.description.hasSuffix(
        "the channel may have been created: look for it with herald channels list before you create another"))
    let gone = failure(.read(ChannelValueTests.id), .refused(status: 404, reason: .channelNotRegistered))
    #expect(gone.isUnknownChannel && !gone.isTemporary)
    let unknown = failure(.list, .refused(status: 418, reason: .other("Teapot")))
    #expect(unknown.description.contains("api:2195 answered 418 Teapot"))
    #expect(failure(.list, .refused(status: 502, reason: nil)).description.contains("502 without a reason"))
    #expect(failure(.list, .unreachable(text: "refused")).description.contains("check apns.manage_sandbox"))
    #expect(failure(.list, .noCredential(text: "x"), host: nil).description.contains("sandbox: x; see herald check"))
  }

  /// Every known reason has a failure with a text, and only some failures are temporary.
  @Test func everyReasonHasAdvice() {
    let temporary: Set<APNsReason> = [
      .idleTimeout, .shutdown, .expiredProviderToken, .unrelatedKeyIdInToken, .tooManyRequests,
      .tooManyProviderTokenUpdates, .internalServerError, .serviceUnavailable,
    ]
    for reason in APNsReason.allKnown {
      let failure = failure(.list, .refused(status: 400, reason: reason))
      #expect(failure.advice != nil, "\(reason)")
      #expect(failure.isTemporary == temporary.contains(reason), "\(reason)")
    }
  }
}
