import PushCore
import Testing

@testable import PushStores

/// What an update or an end is older than when the workers that look up audiences read it.
@Suite struct ExpansionOrderTests {
  /// Unix milliseconds.
  private static let now: Int64 = 1_796_000_000_500

  private func delivery(_ describe: (inout MessageMetadata) -> Void) -> ExpansionDelivery {
    var metadata = MessageMetadata()
    describe(&metadata)
    return ExpansionDelivery(
      epoch: 1, queue: .transactional, tag: 1, body: [], metadata: metadata, cursor: nil, now: Self.now)
  }

  private func order(isEnd: Bool = false, _ describe: (inout MessageMetadata) -> Void) -> JobOrder {
    delivery(describe).order(of: nil, isEnd: isEnd, now: Self.now)
  }

  /// Held up by a full queue, or by another worker that hung.
  @Test(arguments: [nil, 1_796_000_000 - 7]) func updateThatWasHeldUp_isAsNewAsItsPoint(timestamp: Int64?) {
    let point = (Self.now - 7_000) * 1_000
    let heldUp = order {
      $0.order = point
      $0.timestamp = timestamp
    }
    #expect(heldUp.isOlder(than: (Self.now - 5_000) * 1_000) && !heldUp.isOlder(than: point + 40_000))
    let end = order(isEnd: true) { $0.order = point }
    #expect(!end.isOlder(than: Self.now * 1_000), "an end is not lost")
  }

  /// Whichever of two is read first.
  @Test func updateOfTheSecondBefore_isOlder() {
    var points = OrderPoints()
    let second = Self.now / 1_000 - 2
    let (older, newer) = (
      points.next(timestamp: second - 1, receivedAt: Self.now), points.next(timestamp: second, receivedAt: Self.now)
    )
    let order = order {
      $0.order = older
      $0.timestamp = second - 1
    }
    #expect(order.isOlder(than: newer))
  }

  /// A replayed step has the timestamp of its replay.
  @Test func replayedStep_isNoNewerThanItsPoint() {
    let replayed = order {
      $0.order = (Self.now - 60_000) * 1_000
      $0.timestamp = Self.now / 1_000
    }
    #expect(replayed.isOlder(than: (Self.now - 5_000) * 1_000))
  }

  /// A lane whose clock was two hours behind, and that knew it, wrote no point.
  @Test(arguments: [false, true]) func withoutAPoint_itIsAsNewAsNow(hasWaited: Bool) {
    let early = order {
      $0.order = 0
      $0.firstSeen = Self.now - 7_200_000
      $0.isReturning = hasWaited
    }
    #expect(!early.isOlder(than: Self.now * 1_000) && early.place(after: 0) == Self.now * 1_000)
    let unknown = delivery { $0.order = 0 }.order(of: nil, isEnd: false, now: nil)
    #expect(unknown == .arrival, "nor does this worker know the time")
  }

  /// The build before wrote none.
  @Test func withoutAHeader_itsFirstReceiptCounts() {
    let waited = order {
      $0.firstSeen = Self.now - 9_000
      $0.isReturning = true
    }
    #expect(waited.isOlder(than: (Self.now - 5_000) * 1_000))
  }
}
