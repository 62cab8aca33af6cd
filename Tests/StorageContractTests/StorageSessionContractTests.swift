import SanguineAuthority
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

/// The contract of an authority for sessions after a restart, on every driver.
@Suite("Storage contract: ended sessions", .bounded(.seconds(120)))
struct StorageSessionContractTests {
    private let keys = SigningKeys()
    private let clock = ManualWallClock(.at(0))

    private func authority(_ storage: any Storage) async throws -> Authority {
        Authority(storage: storage, keys: keys, clock: clock)
    }

    private func guest(_ authority: Authority, _ device: UInt8) async throws -> SignedIn {
        let secret = String(repeating: "A", count: 42) + "\(["A", "E", "I", "M"][Int(device)])"
        let request = GuestRequest(deviceId: "device-of-number-\(device)", deviceSecret: secret)
        return try await authority.guest(request).signedIn
    }

    private func code(_ token: String, _ authority: Authority) async -> ProblemCode? {
        do {
            _ = try await authority.tokens.verify(token)
            return nil
        } catch {
            return error.code
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `a token of an ended session is rejected after a restart, however many ended since`(
        driver: StorageDriver
    ) async throws {
        try await driver.withEmptyStorage { storage in
            let first = try await authority(storage)
            let ended = try await guest(first, 1).session.accessToken
            let live = try await guest(first, 2).session.accessToken
            try await first.signOut(first.tokens.verify(ended))
            // One more than the authority remembers, all of which ended later.
            let count = UInt64(AccessTokens.capacity) + 1
            for start in stride(from: 0, to: count, by: 5_000) {
                let numbers = start..<min(start + 5_000, count)
                try await storage.store(
                    numbers.map { .put(.session(.sample(.numbered(1_000 + $0), endedAt: .at(1)))) }
                )
            }
            let second = try await authority(storage)

            #expect(await code(ended, second) == .sessionEnded)
            #expect(await code(ended, second) == .sessionEnded, "also when it is repeated")
            #expect(await code(live, second) == nil)
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `a token whose session was deleted is rejected`(driver: StorageDriver) async throws {
        try await driver.withEmptyStorage { storage in
            let first = try await authority(storage)
            let token = try await guest(first, 1).session.accessToken
            let identity = try await first.tokens.verify(token)
            try await storage.store(.delete(.session(identity.session)))
            let second = try await authority(storage)

            #expect(await code(token, second) == .sessionEnded)
        }
    }
}
