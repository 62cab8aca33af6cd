import Foundation
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import Sanguine

@Suite("Signals", .bounded)
struct SignalTests {
    @Test func `a follower receives each change before the setter returns`() {
        let signal = Signal(1)
        let heard = Mutex<[Int]>([])
        let following = signal.follow { heard.withLock { $0.append(signal.value) } }
        signal.set(2)
        signal.set(2)
        signal.set(3)

        #expect(heard.withLock { $0 } == [2, 3])
        withExtendedLifetime(following) {}
    }

    @Test func `a released follower receives no more changes`() {
        let signal = Signal(1)
        let heard = Mutex<[Int]>([])
        do {
            let following = signal.follow { heard.withLock { $0.append(signal.value) } }
            signal.set(2)
            withExtendedLifetime(following) {}
        }
        signal.set(3)

        #expect(heard.withLock { $0 } == [2])
    }

    @Test func `an app's notifications set whether it is in the foreground`() {
        let center = NotificationCenter()
        let (front, back) = (Notification.Name("front"), Notification.Name("back"))
        let lifecycle = NotificationLifecycle(foreground: front, background: back, center: center)
        #expect(lifecycle.isForeground.value)
        center.post(name: back, object: nil)
        #expect(!lifecycle.isForeground.value)
        center.post(name: front, object: nil)

        #expect(lifecycle.isForeground.value)
    }
}
