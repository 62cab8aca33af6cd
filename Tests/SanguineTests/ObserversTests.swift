import Synchronization
import TestSupport
import Testing

@testable import Sanguine

@Suite("Observers", .bounded)
struct ObserversTests {
    @Test func `an observer that leaves during a notification receives no more`() {
        var observers = Observers<Int>()
        let heard = Mutex<[Int]>([])
        let number = observers.add(
            .init(tell: { message in heard.withLock { $0.append(message) } })
        )
        let crowd = observers.crowd()
        crowd.tell(1)
        observers.remove(number)
        crowd.tell(2)
        #expect(heard.withLock { $0 } == [1])
        #expect(observers.isEmpty)
    }

    @Test func `a new observer receives messages from the next one on`() {
        var observers = Observers<Int>()
        let heard = Mutex<[Int]>([])
        let first = observers.crowd()
        _ = observers.add(.init(tell: { message in heard.withLock { $0.append(message) } }))
        first.tell(1)
        observers.crowd().tell(2)
        #expect(heard.withLock { $0 } == [2])
    }

    @Test func `all observers are notified of the end once`() {
        var observers = Observers<Int>()
        let ends = Mutex(0)
        for _ in 0..<3 {
            _ = observers.add(.init(tell: { _ in }, finish: { ends.withLock { $0 += 1 } }))
        }
        observers.takeAll().finish()
        observers.takeAll().finish()
        #expect(ends.withLock { $0 } == 3)
    }
}
