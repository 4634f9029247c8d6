import Testing

@testable import PushCore

@Suite struct ConfirmWindowTests {
  private func ticket(_ number: UInt64) -> ConfirmWindow.Entry {
    ConfirmWindow.Entry(ticket: Ticket(packed: number), destination: .results)
  }

  @Test func settlesOneOrManyInAnyOrder() {
    var window = ConfirmWindow(capacity: 8)
    for sequence in 10...14 as ClosedRange<UInt64> { window.published(sequence, ticket(sequence)) }
    #expect(window.published(12...12) == 12..<13)
    #expect(window.take(12) == ticket(12))
    #expect(window.take(12) == nil)
    #expect(window.count == 4)
    #expect(window.published(1...13) == 10..<14)
    #expect((10..<14 as Range<UInt64>).compactMap { window.take($0) } == [10, 11, 13].map(ticket))
    #expect(window.outstanding == 14..<15)
    #expect(window.take(14) == ticket(14))
    #expect(window.isEmpty)
  }

  @Test func ignoresNumbersThatWereNeverPublished() {
    var window = ConfirmWindow(capacity: 8)
    #expect(window.published(1...7).isEmpty)
    window.published(3, ticket(3))
    #expect(window.published(1...2).isEmpty)
    #expect(window.published(4...4).isEmpty)
    #expect(window.published(.max - 1 ... .max - 1).isEmpty)
    #expect(window.take(.max) == nil)
    #expect(window.count == 1)
  }

  @Test func hasNoRoomBehindOneOldPublish() {
    var window = ConfirmWindow(capacity: 64)
    for sequence in 1...64 as ClosedRange<UInt64> { window.published(sequence, ticket(0)) }
    #expect(!window.hasRoom)
    for sequence in 2...64 as ClosedRange<UInt64> { _ = window.take(sequence) }
    #expect(!window.hasRoom)
    _ = window.take(1)
    #expect(window.hasRoom)
  }

  @Test func goesOnWithLaterNumbersAfterAGap() {
    var window = ConfirmWindow(capacity: 8)
    window.published(1, ticket(1))
    window.published(5, ticket(5))
    #expect(window.published(1...5).compactMap { window.take($0) } == [1, 5].map(ticket))
    window.published(9, ticket(9))
    #expect(window.outstanding == 9..<10)
  }
}
