import PushCore
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
        id, in: registry.scope, cursor, openMaximum: maximum, isDryRun: false, metadata: metadata,
        body: Array("{}".utf8), then: $0)
    }
  }

  /// A job that ends before its first step, and is delivered again, ends in the same way; its queued step does nothing.
  @Test func aJobIsWithdrawnBeforeItsFirstStepOnly() throws {
    let registry = try registry()
    func withdraw(_ id: String, _ why: String) throws -> String? {
      try registry.wait { registry.store.withdraw(id, in: registry.scope, because: why, then: $0) }
    }
    #expect(try withdraw("early", "superseded 3") == "superseded 3")
    #expect(try withdraw("early", "invalid other") == "superseded 3")
    #expect(try open(registry, "early", ExpansionCursor()) == .done)
    let known = try registry.wait { registry.store.progress("early", then: $0) }
    #expect(known?.withdrawn == "superseded 3" && known?.phase == .completed && known?.app == registry.scope.app)
    guard case .evaluate = try open(registry, "late", ExpansionCursor()) else {
      Issue.record("a new job's first step is evaluated")
      return
    }
    #expect(try withdraw("late", "superseded 3") == nil)
    let running = try registry.wait { registry.store.progress("late", then: $0) }
    #expect(running?.withdrawn == nil && running?.phase == .running)
  }

  @Test func aPageTellsHowItsDevicesEnded() throws {
    let registry = try registry()
    func page(_ number: UInt32, _ position: Int, _ ends: String, _ ordinals: String) -> PageSettlement {
      PageSettlement(
        parentID: Array("sale".utf8), page: number, position: position, ends: Array(ends.utf8),
        ordinals: Array(ordinals.utf8))
    }
    func ends(_ number: UInt32, _ position: Int, _ ordinals: [UInt32], epoch: UInt64 = 7) throws -> String? {
      let text = "\(epoch):" + ordinals.map(String.init).joined(separator: ",")
      return try registry.wait {
        registry.store.state(of: page(number, position, "", text), ordinals.count, then: $0)
      }
      .ends.map { String(decoding: $0, as: UTF8.self) }
    }
    #expect(try ends(0, 0, [1, 2]) == "--", "its job is not known")
    guard case .evaluate = try open(registry, "sale", ExpansionCursor()) else { throw TestFailure("no first step") }
    _ = try registry.wait {
      registry.store.fix(
        "sale", step: 0, pages: [PageOrdinals([1, 2, 3], epoch: 7), PageOrdinals([4], epoch: 7)], counted: 0,
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
    let _: Void = try registry.wait { registry.store.finish("sale", then: $0) }
    #expect(try ends(0, 0, [1, 2, 3]) == "sss" && ends(2, 0, [1]) == "-")
    // Redis was emptied: nobody knows which of the earlier pages have ended.
    let later = ExpansionCursor(step: 2, ordinal: 9, pages: 2, devices: 4)
    guard case .evaluate = try open(registry, "lost", later) else { throw TestFailure("no later step") }
    let lost = PageSettlement(parentID: Array("lost".utf8), page: 0, position: 0, ends: [], ordinals: Array("7:1".utf8))
    #expect(try registry.wait { registry.store.state(of: lost, 1, then: $0) }.ends == [PageEnd.open])
  }

  @Test func aPageIsToldWhetherItsJobIsPausedOrCancelled() throws {
    let registry = try registry()
    let page = PageSettlement(parentID: Array("sale".utf8), page: 0, position: 0, ends: [], ordinals: Array("7:1".utf8))
    func standings() throws -> [AudienceStanding] {
      [
        try registry.wait { registry.store.state(of: page, 1, then: $0) }.standing,
        try registry.wait { registry.store.standing(of: Array("sale".utf8), then: $0) },
      ]
    }
    #expect(try standings() == [.running, .running], "its job is not known")
    guard case .evaluate = try open(registry, "sale", ExpansionCursor()) else { throw TestFailure("no first step") }
    _ = try registry.wait {
      registry.store.fix(
        "sale", step: 0, pages: [PageOrdinals([1], epoch: 7)], counted: 0, next: nil, ordinals: 9, then: $0)
    }
    for (command, standing) in [
      (ExpansionState.Command.pause, AudienceStanding.paused), (.resume, .running), (.pause, .paused),
      (.cancel, .cancelled), (.resume, .cancelled),
    ] {
      _ = try registry.wait { registry.store.control(command, "sale", then: $0) }
      #expect(try standings() == [standing, standing])
    }
    let _: Void = try registry.wait { registry.store.finish("sale", then: $0) }
    #expect(try standings() == [.cancelled, .cancelled])
    // It stays its activity's newest: other pushes of it are sent, its pages are not.
    let _: Void = try registry.wait { registry.store.keep("sale", as: .end, then: $0) }
    #expect(try standings() == [.cancelled, .running])
    let kept = try registry.wait { registry.store.progress("sale", then: $0) }
    #expect(kept?.detail == "the activity has ended: this end may have been sent")
    let _: Void = try registry.wait { registry.store.keep("unknown", as: .end, then: $0) }
    #expect(try registry.wait { registry.store.progress("unknown", then: $0) } == nil)
    #expect(try open(registry, "sale", ExpansionCursor()) == .completed)
    #expect(try open(registry, "sale", ExpansionCursor(step: 1)) == .done)
  }

  /// Redis was rewound, and the page made anew for other devices with the same ordinals.
  @Test func aPageOfOtherFingerprintsIsAnotherPage() throws {
    let registry = try registry()
    guard case .evaluate = try open(registry, "sale", ExpansionCursor()) else { throw TestFailure("no first step") }
    let pages = [PageOrdinals([1, 2], epoch: 7, fingerprints: [5, 6])]
    _ = try registry.wait {
      registry.store.fix("sale", step: 0, pages: pages, counted: 0, next: nil, ordinals: 9, then: $0)
    }
    #expect(try registry.wait { registry.store.ordinals("sale", of: 0..<1, then: $0) } == pages)
    func page(_ position: Int, _ ordinals: String, _ fingerprints: [UInt32], _ ends: String) -> PageSettlement {
      PageSettlement(
        parentID: Array("sale".utf8), page: 0, position: position, ends: Array(ends.utf8),
        ordinals: Array(ordinals.utf8), fingerprints: DeviceFingerprints.text(of: fingerprints))
    }
    func ends(_ page: PageSettlement, _ count: Int) throws -> String? {
      try registry.wait { registry.store.state(of: page, count, then: $0) }.ends.map {
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
    let _: Void = try registry.wait { registry.store.endEarly("lost", because: "the filter", then: $0) }
    guard case .evaluate = try open(registry, "lost", ExpansionCursor()) else {
      Issue.record("a lost job's step is evaluated")
      return
    }
    let _: Void = try registry.wait { registry.store.endEarly("lost", because: "the filter", then: $0) }
    #expect(try registry.wait { registry.store.progress("lost", then: $0) }?.earlyEnd == "the filter")
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
              id, step: cursor.step, pages: stored(pages), counted: 0, next: next, ordinals: 1000, then: $0)
          }
          #expect((fixed != nil) == isTaken, "\(place)")
          #expect(fixed?.pages == state?.lastStepPages && fixed?.next == state?.next, "\(place)")
          #expect(fixed?.isComplete == state?.isComplete, "\(place)")
          if let next = fixed?.next { cursors.append(next) }
        case (.publish(let fixed), .publish(let pages)):
          #expect(
            fixed.pages == pages && fixed.next == state?.next && fixed.isComplete == state?.isComplete, "\(place)")
          if let next = fixed.next { cursors.append(next) }
          let ordinals = try registry.wait { registry.store.ordinals(id, of: pages, then: $0) }
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
          parentID: Array(id.utf8), page: page, position: pick(3), ends: (0...pick(3)).map { _ in letters[pick(7)] })
        var ordinals: [UInt32]?
        if pick(3) > 0 {
          let known = state?.openPages[page]?.ordinals ?? []
          let own = Array(known.dropFirst(settlement.position).prefix(settlement.ends.count))
          ordinals = pick(4) > 0 ? own : Array(own.dropLast()) + [UInt32(pick(3))]
          let epoch = known.isEmpty ? 0 : stored([known])[0].epoch
          settlement.ordinals = Array("\(epoch):\((ordinals ?? []).map(String.init).joined(separator: ","))".utf8)
        }
        state?.settled(page: page, position: settlement.position, ends: settlement.ends, ordinals: ordinals)
        let isComplete = try registry.wait { registry.store.settle(settlement, then: $0) }
        #expect(isComplete == state?.isComplete ?? false, "\(place)")
      case 7:
        let step = cursors[pick(UInt64(cursors.count))].step
        state?.published(step: step)
        let _: Void = try registry.wait { registry.store.published(id, step: step, then: $0) }
      case 8:
        let command = ExpansionState.Command.allCases[pick(step < 100 ? 2 : 3)]
        let order = try registry.wait { registry.store.control(command, id, then: $0) }
        #expect(order?.isTaken == state?.ordered(command), "\(place)")
        #expect(order?.after == state?.phase, "\(place)")
      case 9 where pick(4) == 0:
        state?.kept()
        let _: Void = try registry.wait { registry.store.keep(id, as: .state, then: $0) }
      default:
        guard state?.isComplete == true else { break }
        state?.completed()
        let _: Void = try registry.wait { registry.store.finish(id, then: $0) }
      }
      try expectSame(registry, id, state, place)
    }
  }

  private func expectSame(
    _ registry: AudienceRegistry, _ id: String, _ state: ExpansionState?, _ place: String
  ) throws {
    let progress = try registry.wait { registry.store.progress(id, then: $0) }
    guard let state else { return #expect(progress == nil, "\(place)") }
    #expect(progress?.phase == state.phase, "\(place)")
    let standing = try registry.wait { registry.store.standing(of: Array(id.utf8), then: $0) }
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
    let progress = try #require(try registry.wait { registry.store.progress("facts", then: $0) })
    #expect(progress.app == "com.example.app" && progress.environment == "production" && progress.jobClass == .bulk)
    #expect(progress.metadata.enqueuedAt == 1_796_000_000_000 && progress.metadata.firstSeen == 1_796_000_000_123)
    let trace = progress.metadata.bytes[progress.metadata.traceparent.range]
    #expect(trace.elementsEqual("trace".utf8))
    #expect(try registry.wait { registry.store.body("facts", then: $0) } == Array("{}".utf8))
    let _: Void = try registry.wait { registry.store.finish("facts", then: $0) }
    #expect(try registry.wait { registry.store.body("facts", then: $0) } == nil)
    #expect(try open(registry, "facts", ExpansionCursor()) == .completed, "its id is used up")
  }

  /// Two apps may choose the same id: the second app's job must not be taken for the first's.
  @Test func anIDOfAnotherAppIsNotTaken() throws {
    let registry = try registry()
    #expect(try open(registry, "twin", ExpansionCursor()) == .evaluate(from: 0))
    let other = try #require(AppScope(app: "com.example.other", environment: .production))
    let opening = try registry.wait {
      registry.store.open(
        "twin", in: other, ExpansionCursor(), openMaximum: 3, isDryRun: false, metadata: MessageMetadata(), body: [],
        then: $0)
    }
    #expect(opening == .taken)
  }

  @Test func nobodyKnowsAnotherJob() throws {
    let registry = try registry()
    #expect(try registry.wait { registry.store.progress("nobody", then: $0) } == nil)
    let order = try registry.wait { registry.store.control(.cancel, "nobody", then: $0) }
    #expect(order == nil)
    let settlement = PageSettlement(parentID: Array("nobody".utf8), page: 0, position: 0, ends: Array("a".utf8))
    #expect(try registry.wait { registry.store.settle(settlement, then: $0) } == false)
  }
}
