import Foundation
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

@Suite("Unusable store", .bounded)
struct StoreDegradedTests {
    @Test func `the observer is notified of an unusable disk, and reads continue`() async throws {
        let folder = TemporaryFolder()
        // A file at the path of the folder.
        try Data().write(to: folder.url)
        let observer = RecordingObserver()
        let test = try TestClient(network: .profiles(), folder: folder) {
            $0.observer = observer
        }
        let value = try await test.client.value(of: .profile("ada"))

        #expect(value.name == "ada 1")
        #expect(test.client.storeReport.place == .memoryInsteadOfDisk)
        try await eventually("the observer was notified") {
            observer.events.contains(.storeDegraded)
        }
    }
}
