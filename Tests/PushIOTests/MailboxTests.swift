import Foundation
import PushCore
import PushIO
import Synchronization
import Testing

@Suite("Mailbox", .timeLimit(.minutes(5)))
struct MailboxTests {
  @Test func everyLetterOfManyThreadsArrivesOnceAndInItsOrder() throws {
    let loop = try EventLoop()
    let mailbox = loop.mailbox
    let seen = Mutex<[[Int]]>(Array(repeating: [], count: 8))
    for thread in 0..<8 {
      Thread.detachNewThread {
        for letter in 0..<2000 {
          while !mailbox.post({ seen.withLock { $0[thread].append(letter) } }) { usleep(200) }
        }
      }
    }
    #expect(loop.turn(upToMilliseconds: 30_000) { seen.withLock { $0.allSatisfy { $0.count == 2000 } } })
    #expect(seen.withLock { $0 } == Array(repeating: Array(0..<2000), count: 8))
  }

  @Test func aPostEndsTheWait() throws {
    let loop = try EventLoop()
    let mailbox = loop.mailbox
    loop.poll(maximumWaitMilliseconds: 0)
    let start = loop.now.monotonic
    Thread.detachNewThread {
      usleep(30_000)
      mailbox.post {}
    }
    loop.poll(maximumWaitMilliseconds: 10_000)
    #expect(loop.now.monotonic.milliseconds(since: start) < 5000)
  }

  @Test func itIsBoundedAndWorksAgainWhenEmptied() throws {
    let loop = try EventLoop(mailboxCapacity: 3, lookup: Resolver.systemLookup)
    let count = Mutex(0)
    let results = (0..<5).map { _ in loop.mailbox.post { count.withLock { $0 += 1 } } }
    #expect(results == [true, true, true, false, false])
    loop.poll(maximumWaitMilliseconds: 0)
    #expect(count.withLock { $0 } == 3)
    #expect(loop.mailbox.post {})
  }

  @Test func aLetterMayUseTheLoop() throws {
    let loop = try EventLoop()
    let fired = Mutex(false)
    loop.mailbox.postToLoop { loop in
      loop.schedule(afterMilliseconds: 1) { fired.withLock { $0 = true } }
    }
    #expect(loop.turn { fired.withLock { $0 } })
  }

  @Test func aPostAfterTheLoopsEndIsRefused() throws {
    var loop: EventLoop? = try EventLoop()
    let mailbox = try #require(loop).mailbox
    loop = nil
    #expect(!mailbox.post {})
  }
}
