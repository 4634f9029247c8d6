import Glibc
import PushCore
import TestSupport
import Testing

/// What a client sends costs as much as it is long, whatever it looks like: twice the bytes cost about twice the CPU time of the thread.
@Suite(.serialized, .timeLimit(.minutes(4)))
struct ReaderCostTests {
  /// Bodies of about so many bytes.
  enum Shape: String, CaseIterable, Sendable {
    case filters, segments, users, alerts, unknownMembers, tags, job, members, tokens, registration, values, lateKey

    func body(_ count: Int) -> String {
      switch self {
      case .filters:
        // Equal but for their ends.
        let same = (0..<20).map { #"{"tag":"tag-\#($0)","is":"value"}"# }.joined(separator: ",")
        return request(count) { #""filter":{"all":[\#(same),{"tag":"n-\#($0)","exists":true}]}"# }
      case .segments:
        return request(count) { number in
          #""filter":{"any":[\#((0..<60).map { #"{"segment":"s-\#(number * 60 + $0)"}"# }.joined(separator: ","))]}"#
        }
      case .users:
        return request(count) { number in
          #""users":[\#((0..<80).map { "\"u-\(number)-\($0)\"" }.joined(separator: ","))]"#
        }
      case .alerts:
        return request(count) { #""devices":["d"],"content":"\#(String(repeating: "\\u00e9", count: 90 + $0 % 7))""# }
      case .unknownMembers:
        return #"{"request":{"application":"XXXXX-XXXXX","auth":"key",\#(list(count) { "\"m\($0)\":0" })}}"#
      case .tags: return LiveActivitiesAPIBench.call(["tags": "{\(list(count) { "\"t\($0)\":true" })}"])
      case .job:
        return
          #"{"push_type":"alert","to":{"token":"00fc13ad"},"payload":{"aps":{"badge":1},"a":[\#(list(count) { "\($0)" })]}}"#
      case .members: return "{\(list(count) { "\"\($0 % 10)\":0" })}"
      case .tokens:
        return
          #"{"push_type":"alert","payload":{"aps":{"badge":1}},"to":{"tokens":[\#(list(count) { "\"\(10_000_000 + $0)\"" })]}}"#
      case .registration: return "{\(list(count) { "\"\($0 % 10)\":0" })}"
      case .values: return #"{"filter":{"tag":"a","in":[\#(list(count) { "\($0 % 64)" })]}}"#
      case .lateKey: return #"{"request":{"m":[\#(list(count) { "\($0)" })]}}"#
      }
    }

    /// Elements until there are so many bytes.
    private func list(_ count: Int, _ element: (Int) -> String) -> String {
      var (text, number) = (element(0), 0)
      while text.utf8.count < count {
        number += 1
        text += ","
        text += element(number)
      }
      return text
    }

    private func request(_ count: Int, _ target: (Int) -> String) -> String {
      let notifications = list(count) { number in
        """
        {"live_activity":{"content-state":{},"attributes-type":"A","attributes":{},"alert":{"title":"t","body":"b"}},\
        "live_activity_id":"ride",\(target(number))}
        """
      }
      return LiveActivitiesAPIBench.request(notifications)
    }
  }

  /// Nanoseconds of the thread's CPU time.
  private func time(_ body: () throws -> Void) throws -> UInt64 {
    func now() -> UInt64 {
      var time = timespec()
      unsafe clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
      return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }
    let began = now()
    try body()
    return now() - began
  }

  private func read(_ shape: Shape, _ bytes: [UInt8]) throws {
    switch shape {
    case .filters, .segments, .users, .alerts, .unknownMembers:
      var bench = try LiveActivitiesAPIBench()
      _ = bench.read("startLiveActivity", bytes)
    case .tags:
      var bench = try LiveActivitiesAPIBench()
      _ = bench.read("setTags", bytes)
    case .job, .members, .tokens:
      let key = APIKey(
        id: "abcdefgh", hash: [], app: "com.example.app", environment: nil, scopes: [.send], rate: nil, createdAt: 1)
      var intake = JobIntake()
      _ = try? intake.take(bytes, from: JobIntake.Sender(key: key, app: nil, environment: nil)) {
        UUIDValue(high: 1, low: 2)
      }
    case .registration:
      let scope = try #require(AppScope(app: "com.example.app", environment: .production))
      _ = try? RegistrationIntake.device("d", body: bytes, in: scope, at: LiveActivitiesAPIBench.now)
    case .values: _ = try? SegmentIntake.filter(bytes)
    case .lateKey: _ = LiveActivitiesAPI.token(in: bytes)
    }
  }

  @Test(arguments: Shape.allCases)
  func twiceTheBytesCostTwiceTheTime(_ shape: Shape) throws {
    // Of a registration and a filter, more is not read.
    let count = shape == .registration || shape == .values ? 30_000 : 200_000
    let (one, two) = (Array(shape.body(count).utf8), Array(shape.body(2 * count).utf8))
    var (least, most): (UInt64, UInt64) = (.max, .max)
    for _ in 0..<4 {
      least = min(least, try time { try read(shape, one) })
      most = min(most, try time { try read(shape, two) })
    }
    #expect(
      Double(most) < 3 * Double(least) + 3_000_000, "\(least) ns for \(one.count) bytes, \(most) ns for \(two.count)")
  }

  /// The key is found wherever a body is cut behind it.
  @Test func theKeyIsFoundInTheBeginning() {
    let body = Array(
      #" {"a":[1,{"request":2}],"request" : {"x":{"auth":"no"},"auth":"k\u0065y","notifications":[]}}"#.utf8)
    let end = body.count - #","notifications":[]}}"#.utf8.count
    for count in 0...body.count {
      #expect(LiveActivitiesAPI.token(in: Array(body[..<count])) == (count < end ? nil : "key"), "\(count)")
    }
    for other in [#"{"request":{"auth":7}}"#, #"{"auth":"key"}"#, #"["request"]"#, "", #"{"request":["auth"]}"#] {
      #expect(LiveActivitiesAPI.token(in: Array(other.utf8)) == nil)
    }
  }
}
