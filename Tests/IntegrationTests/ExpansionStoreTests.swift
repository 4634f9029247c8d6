import PushCore
import PushIO
import PushStores
import TestSupport
import Testing

/// The scripts that store an audience's progress behave like `ExpansionState`, event by event.
@Suite(.serialized, .timeLimit(.minutes(2)))
struct ExpansionStoreTests {
  private func registry() throws -> AudienceRegistry {
    try AudienceRegistry(
      url: RedisServer.shared().url, prefix: "expansions-\(UInt32.random(in: 0 ... .max)):")
  }

  private func open(
    _ registry: AudienceRegistry, _ id: String, _ cursor: ExpansionCursor, maximum: Int = 3
  ) throws -> ExpansionStore.Opening {
    var metadata = MessageMetadata()
    metadata.bytes = Array("trace".utf8)
    metadata.traceparent = ByteRange(start: 0, count: 5)
    metadata.enqueuedAt = 1_796_000_000_000
    metadata.firstSeen = 1_796_000_000_123
    metadata.jobClass = .bulk
    return try registry.wait {
      registry.store.open(
        registry.job(id), cursor, openMaximum: maximum, isDryRun: false, metadata: metadata,
        body: Array("{}".utf8), then: $0)
    }
  }

  /// A job that ends before its first step, and is delivered again, ends in the same way; its queued step does nothing.
  @Test func aJobIsWithdrawnBeforeItsFirstStepOnly() throws {
    let registry = try registry()
    func withdraw(_ id: String, _ why: String) throws -> String? {
      try registry.wait { registry.store.withdraw(registry.job(id), because: why, then: $0) }
    }
    #expect(try withdraw("early", "superseded 3") == "superseded 3")
    #expect(try withdraw("early", "invalid other") == "superseded 3")
    #expect(try open(registry, "early", ExpansionCursor()) == .done)
    let known = try registry.wait { registry.store.progress(registry.job("early"), then: $0) }
    #expect(known?.withdrawn == "superseded 3" && known?.phase == .completed && known?.app == registry.scope.app)
    guard case .evaluate = try open(registry, "late", ExpansionCursor()) else {
      Issue.record("a new job's first step is evaluated")
      return
    }
    #expect(try withdraw("late", "superseded 3") == nil)
    let running = try registry.wait { registry.store.progress(registry.job("late"), then: $0) }
    #expect(running?.withdrawn == nil && running?.phase == .running)
  }

  @Test func aPageTellsHowItsDevicesEnded() throws {
    let registry = try registry()
    func page(_ number: UInt32, _ position: Int, _ ends: String, _ ordinals: String) -> PageSettlement {
      PageSettlement(
        parentID: Array("sale".utf8), scope: registry.scope, page: number, position: position, ends: Array(ends.utf8),
        ordinals: Array(ordinals.utf8))
    }
    func ends(_ number: UInt32, _ position: Int, _ ordinals: [UInt32], epoch: UInt64 = 7) throws -> String? {
      let text = "\(epoch):" + ordinals.map(String.init).joined(separator: ",")
      return try registry.wait {
        registry.store.state(
          of: page(number, position, "", text), ordinals.count, in: registry.job("sale"), then: $0)
      }
      .ends.map { String(decoding: $0, as: UTF8.self) }
    }
    #expect(try ends(0, 0, [1, 2]) == "--", "its job is not known")
    guard case .evaluate = try open(registry, "sale", ExpansionCursor()) else { throw TestFailure("no first step") }
    _ = try registry.wait {
      registry.store.fix(
        registry.job("sale"), step: 0, pages: [PageOrdinals([1, 2, 3], epoch: 7), PageOrdinals([4], epoch: 7)],
        counted: 0,
        next: nil, ordinals: 9, then: $0)
    }
    #expect(try ends(0, 0, [1, 2, 3]) == "---" && ends(2, 0, [1]) == "-", "another step's")
    _ = try registry.wait { registry.store.settle(page(0, 1, "as", "7:2,3"), then: $0) }
    #expect(try ends(0, 0, [1, 2, 3]) == "-as" && ends(0, 2, [3]) == "s")
    // Redis was emptied, and the page made anew: it is another one.
    #expect(try ends(0, 0, [1, 2, 3], epoch: 6) == nil && ends(0, 0, [1, 3]) == nil && ends(0, 2, [3, 4]) == nil)
    // Nor does what a copy of the one before tells count for it.
    for ordinals in ["6:1", "7:4", "7:1,2", "7:"] {
      _ = try registry.wait { registry.store.settle(page(0, 0, "a", ordinals), then: $0) }
    }
    #expect(try ends(0, 0, [1, 2, 3]) == "-as")
    _ = try registry.wait { registry.store.settle(page(0, 0, "t", "7:1"), then: $0) }
    #expect(try ends(0, 0, [1, 2, 3]) == "sss" && ends(1, 0, [4]) == "-", "all of its devices have ended")
    _ = try registry.wait { registry.store.settle(page(1, 0, "a", ""), then: $0) }
    #expect(try ends(1, 0, [4]) == "s")
    let _: Void = try registry.wait { registry.store.finish(registry.job("sale"), then: $0) }
    #expect(try ends(0, 0, [1, 2, 3]) == "sss" && ends(2, 0, [1]) == "-")
    // Redis was emptied: nobody knows which of the earlier pages have ended.
    let later = ExpansionCursor(step: 2, ordinal: 9, pages: 2, devices: 4)
    guard case .evaluate = try open(registry, "lost", later) else { throw TestFailure("no later step") }
    let lost = PageSettlement(
      parentID: Array("lost".utf8), scope: registry.scope, page: 0, position: 0, ends: [], ordinals: Array("7:1".utf8))
    #expect(
      try registry.wait { registry.store.state(of: lost, 1, in: registry.job("lost"), then: $0) }.ends == [PageEnd.open]
    )
  }

  @Test func aPageIsToldWhetherItsJobIsPausedOrCancelled() throws {
    let registry = try registry()
    let page = PageSettlement(
      parentID: Array("sale".utf8), scope: registry.scope, page: 0, position: 0, ends: [], ordinals: Array("7:1".utf8))
    func standings() throws -> [AudienceStanding] {
      [
        try registry.wait { registry.store.state(of: page, 1, in: registry.job("sale"), then: $0) }.standing,
        try registry.wait { registry.store.standing(of: registry.job("sale"), then: $0) },
      ]
    }
    #expect(try standings() == [.running, .running], "its job is not known")
    guard case .evaluate = try open(registry, "sale", ExpansionCursor()) else { throw TestFailure("no first step") }
    _ = try registry.wait {
      registry.store.fix(
        registry.job("sale"), step: 0, pages: [PageOrdinals([1], epoch: 7)], counted: 0, next: nil, ordinals: 9,
        then: $0)
    }
    for (command, standing) in [
      (ExpansionState.Command.pause, AudienceStanding.paused), (.resume, .running), (.pause, .paused),
      (.cancel, .cancelled), (.resume, .cancelled),
    ] {
      _ = try registry.wait { registry.store.control(command, registry.job("sale"), then: $0) }
      #expect(try standings() == [standing, standing])
    }
    let _: Void = try registry.wait { registry.store.finish(registry.job("sale"), then: $0) }
    #expect(try standings() == [.cancelled, .cancelled])
    // It stays its activity's newest: other pushes of it are sent, its pages are not.
    let _: Void = try registry.wait { registry.store.keep(registry.job("sale"), as: .end, then: $0) }
    #expect(try standings() == [.cancelled, .running])
    let kept = try registry.wait { registry.store.progress(registry.job("sale"), then: $0) }
    #expect(kept?.detail == "the activity has ended: this end may have been sent")
    let _: Void = try registry.wait { registry.store.keep(registry.job("unknown"), as: .end, then: $0) }
    #expect(try registry.wait { registry.store.progress(registry.job("unknown"), then: $0) } == nil)
    #expect(try open(registry, "sale", ExpansionCursor()) == .completed)
    #expect(try open(registry, "sale", ExpansionCursor(step: 1)) == .done)
  }

  /// Redis was rewound, and the page made anew for other devices with the same ordinals.
  @Test func aPageOfOtherFingerprintsIsAnotherPage() throws {
    let registry = try registry()
    guard case .evaluate = try open(registry, "sale", ExpansionCursor()) else { throw TestFailure("no first step") }
    let pages = [PageOrdinals([1, 2], epoch: 7, fingerprints: [5, 6])]
    _ = try registry.wait {
      registry.store.fix(registry.job("sale"), step: 0, pages: pages, counted: 0, next: nil, ordinals: 9, then: $0)
    }
    #expect(try registry.wait { registry.store.ordinals(registry.job("sale"), of: 0..<1, then: $0) } == pages)
    func page(_ position: Int, _ ordinals: String, _ fingerprints: [UInt32], _ ends: String) -> PageSettlement {
      PageSettlement(
        parentID: Array("sale".utf8), scope: registry.scope, page: 0, position: position, ends: Array(ends.utf8),
        ordinals: Array(ordinals.utf8), fingerprints: DeviceFingerprints.text(of: fingerprints))
    }
    func ends(_ page: PageSettlement, _ count: Int) throws -> String? {
      try registry.wait { registry.store.state(of: page, count, in: registry.job("sale"), then: $0) }.ends.map {
        String(decoding: $0, as: UTF8.self)
      }
    }
    #expect(try ends(page(0, "7:1,2", [5, 6], ""), 2) == "--" && ends(page(1, "7:2", [6], ""), 1) == "-")
    #expect(try ends(page(0, "7:1,2", [], ""), 2) == "--", "of the build before")
    #expect(try ends(page(0, "7:1,2", [5, 9], ""), 2) == nil && ends(page(1, "7:2", [9], ""), 1) == nil)
    _ = try registry.wait { registry.store.settle(page(1, "7:2", [9], "a"), then: $0) }
    #expect(try ends(page(0, "7:1,2", [5, 6], ""), 2) == "--")
    _ = try registry.wait { registry.store.settle(page(1, "7:2", [6], "g"), then: $0) }
    #expect(try ends(page(0, "7:1,2", [5, 6], ""), 2) == "-g")
  }

  /// Some of them are a fallback's or on a channel: by their devices, so that it is known of each again.
  private func stored(_ pages: [[UInt32]]) -> [PageOrdinals] {
    let kinds: [PageOrdinals.Kind] = [.usual, .fallback] + (ChannelID(text: "AbC+/w==").map { [.channel($0)] } ?? [])
    return pages.map { PageOrdinals($0, epoch: UInt64($0.count % 2), kinds[$0.count % kinds.count]) }
  }

  /// Redis lost the job meanwhile: nothing may be left that looks like another app's job, or for ever.
  @Test func anUnknownJobEndsEarlyWithoutATrace() throws {
    let registry = try registry()
    let _: Void = try registry.wait { registry.store.endEarly(registry.job("lost"), because: "the filter", then: $0) }
    guard case .evaluate = try open(registry, "lost", ExpansionCursor()) else {
      Issue.record("a lost job's step is evaluated")
      return
    }
    let _: Void = try registry.wait { registry.store.endEarly(registry.job("lost"), because: "the filter", then: $0) }
    #expect(try registry.wait { registry.store.progress(registry.job("lost"), then: $0) }?.earlyEnd == "the filter")
  }

  @Test(arguments: 0..<12 as Range<UInt64>) func theScriptsAreTheState(_ seed: UInt64) throws {
    let registry = try registry()
    var random = SeededRandom(seed: seed)
    func pick(_ bound: UInt64) -> Int { Int(random.next() % bound) }
    let id = "job \"\(seed)}"
    var cursors = [ExpansionCursor()]
    var state: ExpansionState?
    for step in 0..<120 {
      let place = "seed \(seed), step \(step)"
      switch pick(10) {
      case 0...3:
        // Sometimes a step that Redis does not know.
        var cursor = cursors[pick(UInt64(cursors.count))]
        if pick(40) == 0 {
          cursor = ExpansionCursor(
            step: cursor.step + 2, ordinal: cursor.ordinal + 9, pages: cursor.pages + 2, devices: 99)
        }
        // Or one that follows the last, from before Redis forgot the job.
        if let state, state.ordinal == nil, pick(3) == 0 {
          cursor = ExpansionCursor(step: state.fixedSteps, ordinal: 900, pages: cursor.pages, devices: 9)
        }
        if state == nil { state = ExpansionState(cursor) }
        let wanted = state?.opened(cursor, openMaximum: 3)
        switch (try open(registry, id, cursor), wanted) {
        case (.done, .done), (.completed, .completed), (.paused, .paused), (.full, .full): break
        case (.evaluate(let ordinal), .evaluate(let other)):
          #expect(ordinal == other, "\(place)")
          let pages = (0..<pick(3)).map { page in (0...UInt32(pick(3))).map { ordinal + UInt32(page * 10) + $0 } }
          let next = pick(8) == 0 ? nil : ordinal + 40
          let isTaken = state?.found(step: cursor.step, pages: pages, next: next)
          let fixed = try registry.wait {
            registry.store.fix(
              registry.job(id), step: cursor.step, pages: stored(pages), counted: 0, next: next, ordinals: 1000,
              then: $0)
          }
          #expect((fixed != nil) == isTaken, "\(place)")
          #expect(fixed?.pages == state?.lastStepPages && fixed?.next == state?.next, "\(place)")
          #expect(fixed?.isComplete == state?.isComplete, "\(place)")
          if let next = fixed?.next { cursors.append(next) }
        case (.publish(let fixed), .publish(let pages)):
          #expect(
            fixed.pages == pages && fixed.next == state?.next && fixed.isComplete == state?.isComplete, "\(place)")
          if let next = fixed.next { cursors.append(next) }
          let ordinals = try registry.wait { registry.store.ordinals(registry.job(id), of: pages, then: $0) }
          let known = pages.map { page in
            state?.openPages[page].map { stored([$0.ordinals])[0] }
          }
          #expect(ordinals == known, "\(place)")
        case (let redis, let other):
          Issue.record("\(place): \(redis) and \(String(describing: other))")
        }
      case 4...6:
        let page = UInt32(pick(UInt64((state?.pageCount ?? 0) + 2)))
        let letters = Array("-arsugc".utf8)
        var settlement = PageSettlement(
          parentID: Array(id.utf8), scope: registry.scope, page: page, position: pick(3),
          ends: (0...pick(3)).map { _ in letters[pick(7)] })
        var ordinals: [UInt32]?
        if pick(3) > 0 {
          let known = state?.openPages[page]?.ordinals ?? []
          let own = Array(known.dropFirst(settlement.position).prefix(settlement.ends.count))
          ordinals = pick(4) > 0 ? own : Array(own.dropLast()) + [UInt32(pick(3))]
          let epoch = known.isEmpty ? 0 : stored([known])[0].epoch
          settlement.ordinals = Array("\(epoch):\((ordinals ?? []).map(String.init).joined(separator: ","))".utf8)
        }
        state?.settled(page: page, position: settlement.position, ends: settlement.ends, ordinals: ordinals)
        let completed = try registry.wait { registry.store.settle(settlement, then: $0) }
        #expect((completed != nil) == state?.isComplete ?? false, "\(place)")
      case 7:
        let step = cursors[pick(UInt64(cursors.count))].step
        state?.published(step: step)
        let _: Void = try registry.wait { registry.store.published(registry.job(id), step: step, then: $0) }
      case 8:
        let command = ExpansionState.Command.allCases[pick(step < 100 ? 2 : 3)]
        let order = try registry.wait { registry.store.control(command, registry.job(id), then: $0) }
        #expect(order?.isTaken == state?.ordered(command), "\(place)")
        #expect(order?.after == state?.phase, "\(place)")
      case 9 where pick(4) == 0:
        state?.kept()
        let _: Void = try registry.wait { registry.store.keep(registry.job(id), as: .state, then: $0) }
      default:
        guard state?.isComplete == true else { break }
        state?.completed()
        let _: Void = try registry.wait { registry.store.finish(registry.job(id), then: $0) }
      }
      try expectSame(registry, id, state, place)
    }
  }

  private func expectSame(
    _ registry: AudienceRegistry, _ id: String, _ state: ExpansionState?, _ place: String
  ) throws {
    let progress = try registry.wait { registry.store.progress(registry.job(id), then: $0) }
    guard let state else { return #expect(progress == nil, "\(place)") }
    #expect(progress?.phase == state.phase, "\(place)")
    let standing = try registry.wait { registry.store.standing(of: registry.job(id), then: $0) }
    #expect(standing == state.standing, "\(place)")
    #expect(progress?.summary == state.summary, "\(place)")
    #expect(progress?.pages == state.pageCount && progress?.settledPages == state.settledPages, "\(place)")
    #expect(progress?.ordinal == state.ordinal, "\(place)")
    #expect(progress?.isPartlyForgotten == state.isPartlyForgotten, "\(place)")
    #expect(progress?.isCancelled == state.isCancelled, "\(place)")
  }

  @Test func theFactsOfAJobAreKeptUntilItsEnd() throws {
    let registry = try registry()
    #expect(try open(registry, "facts", ExpansionCursor()) == .evaluate(from: 0))
    let progress = try #require(try registry.wait { registry.store.progress(registry.job("facts"), then: $0) })
    #expect(progress.app == "com.example.app" && progress.environment == "production" && progress.jobClass == .bulk)
    #expect(progress.metadata.enqueuedAt == 1_796_000_000_000 && progress.metadata.firstSeen == 1_796_000_000_123)
    let trace = progress.metadata.bytes[progress.metadata.traceparent.range]
    #expect(trace.elementsEqual("trace".utf8))
    #expect(try registry.wait { registry.store.body(registry.job("facts"), then: $0) } == Array("{}".utf8))
    let _: Void = try registry.wait { registry.store.finish(registry.job("facts"), then: $0) }
    #expect(try registry.wait { registry.store.body(registry.job("facts"), then: $0) } == nil)
    #expect(try open(registry, "facts", ExpansionCursor()) == .completed, "its id is used up")
  }

  /// Two apps may choose the same id, and one app the same id in both environments: each job has its own progress, end and commands.
  @Test func jobsOfOneIDKnowNothingOfEachOther() throws {
    let registry = try registry()
    let other = try #require(AppScope(app: "com.example.other", environment: .production))
    let sandbox = try #require(AppScope(app: registry.scope.app, environment: .sandbox))
    let jobs = [registry.scope, other, sandbox].map { AudienceID("twin", in: $0) }
    for job in jobs {
      let opening = try registry.wait {
        registry.store.open(
          job, ExpansionCursor(), openMaximum: 3, isDryRun: false, metadata: MessageMetadata(),
          body: Array(job.scope.app.utf8), then: $0)
      }
      #expect(opening == .evaluate(from: 0), "\(job)")
      _ = try registry.wait {
        registry.store.fix(
          job, step: 0, pages: [PageOrdinals([1], epoch: 7)], counted: 0, next: nil, ordinals: 9, then: $0)
      }
    }
    _ = try registry.wait { registry.store.control(.cancel, jobs[1], then: $0) }
    let settlement = PageSettlement(
      parentID: Array("twin".utf8), scope: sandbox, page: 0, position: 0, ends: Array("a".utf8))
    #expect(try registry.wait { registry.store.settle(settlement, then: $0) } == jobs[2])
    let known = try jobs.map { job in try #require(try registry.wait { registry.store.progress(job, then: $0) }) }
    #expect(known.map(\.isCancelled) == [false, true, false] && known.map(\.isComplete) == [false, false, true])
    #expect(known.map(\.app) == jobs.map(\.scope.app))
    #expect(try registry.wait { registry.store.body(jobs[1], then: $0) } == Array(other.app.utf8))
  }

  /// No two names can be read as one, whatever is in an id.
  @Test func keysOfTwoJobsDiffer() throws {
    let scopes = try [
      ("a.b", APNsEnvironment.production), ("a.b", .sandbox), ("a", .production), ("production", .sandbox),
    ]
    .map { try #require(AppScope(app: $0.0, environment: $0.1)) }
    let ids = ["a", "a}:a.b:production:", "a}:a.b:sandbox:state", "}", "a}:", ":", "a:a.b", "state"]
    var seen: Set<String> = []
    for id in ids {
      for scope in scopes { seen.formUnion(ExpansionKeys(prefix: "p:", AudienceID(id, in: scope)).all.prefix(4)) }
      seen.insert(ExpansionKeys.formerState(prefix: "p:", id: id))
    }
    #expect(seen.count == ids.count * (scopes.count * 4 + 1))
  }

  /// An upgrade while an audience is expanded: all that Redis has of the job is its own from then on, whichever of its messages or readers
  /// comes first, also what names no app.
  @Test(arguments: ["step", "page", "report", "old report", "standing", "progress", "command", "withdrawal"])
  func aJobOfTheBuildBeforeGoesOn(first: String) throws {
    let registry = try registry()
    let job = registry.job("sale")
    guard case .evaluate = try open(registry, "sale", ExpansionCursor()) else { throw TestFailure("no first step") }
    let pages = [PageOrdinals([1], epoch: 7), PageOrdinals([2], epoch: 7)]
    _ = try registry.wait {
      registry.store.fix(job, step: 0, pages: pages, counted: 0, next: 40, ordinals: 99, then: $0)
    }
    let names = ExpansionKeys(prefix: registry.prefix, job).all
    for index in 0..<4 {
      #expect(
        try registry.wait { registry.redis.call(["RENAME", names[index], names[4 + index]], key: names[0], then: $0) }
          != .null)
    }
    func settlement(_ page: UInt32, _ scope: AppScope?) -> PageSettlement {
      PageSettlement(
        parentID: Array("sale".utf8), scope: scope, page: page, position: 0, ends: Array("a".utf8),
        ordinals: Array("7:\(page + 1)".utf8))
    }
    let later = ExpansionCursor(step: 1, ordinal: 40, pages: 2, devices: 2)
    // A job of another app with this id is not the one that the build before knew.
    let other = AudienceID("sale", in: try #require(AppScope(app: "com.example.other", environment: .production)))
    #expect(try registry.wait { registry.store.progress(other, then: $0) } == nil)
    switch first {
    case "step": #expect(try open(registry, "sale", later) == .evaluate(from: 40))
    case "page":
      #expect(
        try registry.wait { registry.store.state(of: settlement(0, job.scope), 1, in: job, then: $0) }.ends == [
          PageEnd.open
        ])
    case "report": _ = try registry.wait { registry.store.settle(settlement(0, job.scope), then: $0) }
    case "old report": _ = try registry.wait { registry.store.settle(settlement(0, nil), then: $0) }
    case "standing": _ = try registry.wait { registry.store.standing(of: job, then: $0) }
    case "progress": #expect(try registry.wait { registry.store.progress(job, then: $0) } != nil)
    case "command": #expect(try registry.wait { registry.store.control(.pause, job, then: $0) }?.isTaken == true)
    default: #expect(try registry.wait { registry.store.withdraw(job, because: "invalid x", then: $0) } == nil)
    }
    if first == "command" { _ = try registry.wait { registry.store.control(.resume, job, then: $0) } }
    #expect(try registry.wait { registry.store.body(job, then: $0) } == Array("{}".utf8))
    #expect(try open(registry, "sale", later) == .evaluate(from: 40))
    let last = try registry.wait {
      registry.store.fix(job, step: 1, pages: [], counted: 0, next: nil, ordinals: 99, then: $0)
    }
    #expect(last?.isComplete == false)
    _ = try registry.wait { registry.store.settle(settlement(0, nil), then: $0) }
    #expect(try registry.wait { registry.store.settle(settlement(1, nil), then: $0) } == job)
    let end = try #require(try registry.wait { registry.store.progress(job, then: $0) })
    #expect(end.isComplete && !end.isPartlyForgotten && end.summary[.outcome(.accepted)] == 2)
  }

  @Test func nobodyKnowsAnotherJob() throws {
    let registry = try registry()
    #expect(try registry.wait { registry.store.progress(registry.job("nobody"), then: $0) } == nil)
    let order = try registry.wait { registry.store.control(.cancel, registry.job("nobody"), then: $0) }
    #expect(order == nil)
    let settlement = PageSettlement(
      parentID: Array("nobody".utf8), scope: registry.scope, page: 0, position: 0, ends: Array("a".utf8))
    #expect(try registry.wait { registry.store.settle(settlement, then: $0) } == nil)
  }
}
