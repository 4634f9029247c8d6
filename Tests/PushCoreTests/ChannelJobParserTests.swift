import PushCore
import Testing

/// Requests of the queue `push.channels`: valid ones are parsed, errors name field and rule.
@Suite struct ChannelJobParserTests {
  private func parse(_ text: String, fallbackID: String = "") throws(ChannelJobFault) -> ChannelJob {
    try ChannelJobParser.parse(Array(text.utf8), fallbackID: fallbackID)
  }

  private func detail(_ text: String, fallbackID: String = "") -> String {
    do throws(ChannelJobFault) {
      return "taken: \(try parse(text, fallbackID: fallbackID))"
    } catch {
      return error.error.detail
    }
  }

  @Test func everyActionIsTaken() throws {
    let scope = try #require(AppScope(app: "com.example.app", environment: .sandbox))
    let head = #""version":1,"id":"r1","app":"com.example.app","environment":"sandbox""#
    let name = try #require(ChannelName("match/1"))
    let id = try #require(ChannelID(text: "a/b="))
    let cases: [(String, ChannelJob.Task)] = [
      (#""action":"create","storage":"none""#, .create(nil, .none)),
      (#""action":"create","storage":"none","name":"match\/1""#, .create(name, .none)),
      (#""action":"ensure","storage":"most-recent","name":"match/1""#, .ensure(name, .mostRecent)),
      (#""action":"read","channel":"a\/b=""#, .read(.channel(id))),
      (#""action":"delete","name":"match/1""#, .delete(.name(name))),
      (#""action":"list""#, .list),
    ]
    for (text, task) in cases {
      #expect(try parse("{\(head),\(text)}") == ChannelJob(id: "r1", scope: scope, task: task))
    }
    let short = try parse(#"{"action":"list","app":"com.example.app"}"#, fallbackID: "m1")
    #expect(short.id == "m1" && short.scope.environment == .production)
  }

  @Test func faultsNameFieldAndRule() {
    let cases: [(String, String)] = [
      ("", "body: is not JSON"),
      (#"{"action":"list","app":"com.example.app"}"#, "id: is missing"),
      (#"{"id":"","action":"list","app":"com.example.app"}"#, "id: must be 1 to 128 bytes"),
      (#"{"id":"r","action":"list"}"#, "app: is missing"),
      (#"{"id":"r","app":"a b","action":"list"}"#, "app: must be a bundle id"),
      (#"{"id":"r","app":"a"}"#, "action: is missing"),
      (#"{"id":"r","app":"a","action":"make"}"#, "action: must be one of create, ensure, read, delete, list, not make"),
      (
        #"{"id":"r","app":"a","action":"list","environment":"dev"}"#,
        "environment: must be production or sandbox, not dev"
      ),
      (#"{"id":"r","app":"a","action":"ensure","name":"n"}"#, "storage: is missing"),
      (#"{"id":"r","app":"a","action":"ensure","name":"n","storage":1}"#, "storage: must be a string, not 1"),
      (
        #"{"id":"r","app":"a","action":"ensure","name":"n","storage":"all"}"#,
        "storage: must be none or most-recent, not all"
      ),
      (#"{"id":"r","app":"a","action":"ensure","storage":"none"}"#, "name: is missing"),
      (#"{"id":"r","app":"a","action":"ensure","storage":"none","name":"a\nb"}"#, "name: must be 1 to 128 bytes"),
      (#"{"id":"r","app":"a","action":"read"}"#, "channel: is missing; read takes a channel, or a name"),
      (#"{"id":"r","app":"a","action":"read","channel":"%"}"#, "channel: must be a channel id"),
      (#"{"id":"r","app":"a","action":"read","channel":"ab","name":"n"}"#, "name: does not go with channel"),
      (#"{"id":"r","app":"a","action":"list","name":"n"}"#, "name: does not go with list"),
      (
        #"{"id":"r","app":"a","action":"list","chanel":"n"}"#,
        "chanel: is not a key of a channel request; did you mean channel?"
      ),
      (#"{"id":"r","id":"s","app":"a","action":"list"}"#, "id: must be there once, not twice"),
      (#"{"version":2,"id":"r","app":"a","action":"list"}"#, "version: must be 1, not 2"),
    ]
    for (text, expected) in cases {
      let detail = detail(text)
      #expect(detail.hasPrefix(expected), "\(text): \(detail)")
    }
  }

  @Test func theAnswerToAFaultKnowsWhatCouldBeRead() throws {
    do throws(ChannelJobFault) {
      _ = try parse(#"{"id":"r1","app":"com.example.app","environment":"sandbox","action":"read"}"#)
      Issue.record("it was taken")
    } catch {
      let reply = ChannelReply(to: error)
      #expect(reply.routingKey == "channel.sandbox.com.example.app")
      #expect(
        String(decoding: reply.json, as: UTF8.self)
          == #"{"version":1,"id":"r1","action":"read","app":"com.example.app","environment":"sandbox","ok":false,"#
          + #""error":{"kind":"invalid","status":null,"reason":null,"#
          + #""detail":"channel: is missing; read takes a channel, or a name"}}"#)
    }
  }

  @Test func answersAreJSON() throws {
    let job = try parse(
      #"{"id":"r\"1","app":"com.example.app","action":"ensure","name":"n","storage":"none"}"#)
    var reply = ChannelReply(to: job)
    reply.channel = ChannelID(text: "QQ==")
    reply.name = ChannelName("n")
    reply.storage = StoragePolicy.none
    reply.isCreated = true
    #expect(
      String(decoding: reply.json, as: UTF8.self)
        == #"{"version":1,"id":"r\"1","action":"ensure","app":"com.example.app","environment":"production","ok":true,"#
        + #""channel":"QQ==","name":"n","storage":"none","created":true}"#)
    var list = ChannelReply(to: job)
    list.channels = [.init(channel: try #require(ChannelID(text: "QQ==")), name: nil)]
    #expect(String(decoding: list.json, as: UTF8.self).hasSuffix(#""channels":[{"channel":"QQ==","name":null}]}"#))
  }

  @Test func hostileBytesAreOnlyFaults() {
    var random = SeededRandom(seed: 7)
    let valid = Array(
      #"{"version":1,"id":"r1","app":"com.example.app","action":"ensure","name":"n","storage":"none"}"#.utf8)
    var faults = 0
    for _ in 0..<5_000 {
      var bytes = valid
      for _ in 0...(random.next() % 4) {
        bytes[Int(random.next() % UInt64(bytes.count))] = UInt8(truncatingIfNeeded: random.next())
      }
      do throws(ChannelJobFault) { _ = try ChannelJobParser.parse(bytes, fallbackID: "") } catch { faults += 1 }
    }
    #expect(faults > 4_000)
    let long = "{\"id\":\"" + String(repeating: "x", count: 20_000) + "\"}"
    #expect(detail(long) == "body: must be at most 16384 bytes, not 20009")
  }
}
