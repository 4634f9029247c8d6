import Foundation
import PushCore
import PushIO
import PushStores
import TestSupport
import Testing

/// An activity with many members, in pages.
@Suite(.serialized, .timeLimit(.minutes(3)))
struct GatewayActivityTests {
  private struct Page: Decodable {
    struct Members: Decodable {
      let all: Int
      let live: Int
    }

    struct Device: Decodable {
      let device: String?
      let state: String
      let tokenAt: Int64

      enum CodingKeys: String, CodingKey {
        case device, state
        case tokenAt = "token_at"
      }
    }

    let activity: String
    let members: Members
    let devices: [Device]
    let next: String?
  }

  @Test func membersComeInPages() throws {
    let world = try GatewayWorld("pages")
    let registry = try AudienceRegistry(url: RedisServer.shared().url, prefix: "\(world.prefix):")
    let activities = ActivityRegistry(loop: registry.loop, redis: registry.redis, prefix: "\(world.prefix):")
    let id = try #require(ActivityID("ride 1"))
    let now = Int64(Date.now.timeIntervalSince1970 * 1_000)
    // In two chunks, the second with few.
    let ordinals = (0..<1_500).map { UInt32($0) } + (65_280..<65_290).map { UInt32($0) }
    func register(_ ordinal: UInt32, _ token: [UInt8], at: Int64) throws {
      _ = try registry.wait {
        activities.register(id, in: registry.scope, ordinal: ordinal, token: token, at: at, then: $0)
      }
    }
    for ordinal in ordinals {
      try register(
        ordinal, [UInt8](repeating: 7, count: 30) + [UInt8(ordinal >> 8), UInt8(truncatingIfNeeded: ordinal)],
        at: now - 200_000 + Int64(ordinal))
      // Over on these.
      if ordinal % 3 == 0 { try register(ordinal, [], at: now - 100_000 + Int64(ordinal)) }
    }
    func page(_ query: String) throws -> Page {
      let answer = try world.ask("GET", "/v1/activities/ride%201\(query)")
      try #require(answer.status == 200, "\(answer.body)")
      // Of all members it would have twice as many.
      #expect(answer.body.utf8.count < 100_000, "\(answer.body.utf8.count) bytes")
      return try JSONDecoder().decode(Page.self, from: Data(answer.body.utf8))
    }
    var (pages, found): (Int, [Int64]) = (0, [])
    var next: String? = ""
    while let after = next {
      let page = try page("?limit=200" + (after.isEmpty ? "" : "&after=\(after)"))
      #expect(page.activity == "ride 1" && page.members.all == ordinals.count)
      #expect(page.members.live == ordinals.count { $0 % 3 != 0 })
      // A hash of few values comes at once.
      #expect(!page.devices.isEmpty && page.devices.count <= 200 + 512, "\(page.devices.count)")
      found += page.devices.map(\.tokenAt)
      (pages, next) = (pages + 1, page.next)
    }
    // Each device once: no two have the same time.
    #expect(found.count == ordinals.count && Set(found).count == ordinals.count, "\(found.count)")
    #expect(pages >= 5, "\(pages)")
    #expect(try page("").devices.count < 700)
    for wrong in ["?limit=0", "?limit=501", "?limit=x", "?after=x", "?after=0-l--1"] {
      #expect(try world.ask("GET", "/v1/activities/ride%201\(wrong)").status == 400)
    }
    #expect(try world.ask("GET", "/v1/activities/other?after=0-l-0").status == 404)
  }
}
