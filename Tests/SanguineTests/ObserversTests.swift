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
        let crowd = observers.snapshot()
        crowd.notify(1)
        observers.remove(number)
        crowd.notify(2)
        #expect(heard.withLock { $0 } == [1])
        #expect(observers.isEmpty)
    }

    @Test func `a new observer receives messages starting with the next one`() {
        var observers = Observers<Int>()
        let heard = Mutex<[Int]>([])
        let first = observers.snapshot()
        _ = observers.add(.init(tell: { message in heard.withLock { $0.append(message) } }))
        first.notify(1)
        observers.snapshot().notify(2)
        #expect(heard.withLock { $0 } == [2])
    }

    @Test func `all observers are notified of the end once`() {
        var observers = Observers<Int>()
        let ends = Mutex(0)
        for _ in 0..<3 {
            _ = observers.add(.init(tell: { _ in }, finish: { ends.withLock { $0 += 1 } }))
        }
        observers.removeAll().finish()
        observers.removeAll().finish()
        #expect(ends.withLock { $0 } == 3)
    }
}
