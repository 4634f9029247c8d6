import PushCore
import Testing

/// Publishes, returns and confirms, as a trace.
struct PublishSequenceTests {
  /// The numbers of this many publishes.
  private func publish(_ count: Int, _ sequence: inout PublishSequence) -> [UInt64] {
    (0..<count).map { _ in sequence.take() }
  }

  @Test func confirmsAreOfTheConnectionInUse() {
    var sequence = PublishSequence()
    sequence.restart()
    #expect(publish(3, &sequence) == [1, 2, 3])
    #expect(sequence.settled(2, isMultiple: false) == 2...2)
    sequence.restart()
    #expect(publish(2, &sequence) == [4, 5])
    #expect(sequence.sequence(of: 1) == 4)
    #expect(sequence.settled(2, isMultiple: true) == 4...5)
  }

  @Test func whatCameBackIsNotConfirmed() {
    var sequence = PublishSequence()
    _ = publish(3, &sequence)
    #expect(sequence.markReturned(2) == true)
    #expect(sequence.settled(1, isMultiple: false) == 1...1)
    #expect(sequence.settled(2, isMultiple: false) == nil)
    #expect(sequence.settled(3, isMultiple: false) == 3...3)
    #expect(sequence.returned.isEmpty)
  }

  @Test func aConfirmOfManyIsReportedAndCoversWhatCameBack() {
    var sequence = PublishSequence()
    _ = publish(4, &sequence)
    #expect(sequence.markReturned(2) == true)
    #expect(sequence.markReturned(4) == true)
    #expect(sequence.settled(2, isMultiple: true) == 1...2)
    #expect(sequence.returned == [4])
    #expect(sequence.settled(4, isMultiple: false) == nil)
  }

  @Test func numbersOfOtherConnectionsDoNotComeBack() {
    var sequence = PublishSequence()
    _ = publish(2, &sequence)
    #expect(sequence.markReturned(2) == true)
    sequence.restart()
    #expect(sequence.returned.isEmpty)
    #expect(sequence.all == nil)
    _ = publish(1, &sequence)
    #expect(sequence.all == 3...3)
    #expect(sequence.settled(0, isMultiple: true) == nil && sequence.settled(2, isMultiple: true) == nil)
    #expect(sequence.markReturned(0) == false)
    #expect(sequence.markReturned(2) == false)
    #expect(sequence.markReturned(4) == false)
    #expect(sequence.markReturned(3) == true)
  }
}
