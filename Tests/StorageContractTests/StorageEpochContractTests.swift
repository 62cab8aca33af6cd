import SanguineAuthority
import SanguineModel
import TestSupport
import Testing

/// The contract of every storage driver for the epoch.
@Suite("Storage contract: the epoch", .bounded)
struct StorageEpochContractTests {
    @Test(arguments: StorageDriver.allCases)
    func `a storage has one unique epoch that no change affects`(
        driver: StorageDriver
    ) async throws {
        try await driver.withEmptyStorage { storage in
            let first = storage.epoch
            _ = try await storage.add(5, to: .fresh())
            try await storage.checkHealth()
            #expect(storage.epoch == first)
            try await driver.withEmptyStorage { #expect($0.epoch != first) }
        }
    }
}
