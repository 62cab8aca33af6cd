import Foundation
import SanguineModel
import Synchronization
import TestSupport
import Testing

@testable import SanguineAuthority

/// A made DeviceCheck, in which a token is the device.
private final class ScriptedDeviceCheck: DeviceCheckClient {
    private let bits = Mutex<[String: DeviceCheckBits]>([:])
    private let failure = Mutex<DeviceCheckError?>(nil)
    private let asked = Mutex(0)

    /// The number of queries.
    var queries: Int { asked.withLock(\.self) }

    func set(_ token: String, _ value: DeviceCheckBits) { bits.withLock { $0[token] = value } }

    func fail(with error: DeviceCheckError?) { failure.withLock { $0 = error } }

    func query(_ token: String) async throws(DeviceCheckError) -> DeviceCheckBits {
        asked.withLock { $0 += 1 }
        if let error = failure.withLock({ $0 }) { throw error }
        return bits.withLock { $0[token] ?? DeviceCheckBits() }
    }

    func update(_ token: String, _ value: DeviceCheckBits) async throws(DeviceCheckError) {
        if let error = failure.withLock({ $0 }) { throw error }
        set(token, value)
    }
}

@Suite("DeviceCheck", .bounded)
struct DeviceCheckTests {
    private let apple = ScriptedDeviceCheck()

    private func authority(hasClient: Bool = true, guestsPerHour: Int = 0) -> Authority {
        var settings = AuthoritySettings()
        settings.guestsPerHour = guestsPerHour
        settings.attestation = AttestationSettings()
        return Authority(
            storage: MemoryStorage(),
            keys: SigningKeys(),
            settings: settings,
            clock: ManualClock(),
            deviceCheck: hasClient ? apple : nil
        )
    }

    private func request(_ number: Int, token: String? = "token") -> GuestRequest {
        GuestRequest(
            deviceId: "device-number-\(100_000 + number)",
            deviceSecret: Base64URL.encode([UInt8](repeating: 7, count: 32)),
            deviceCheckToken: token
        )
    }

    @Test func `a device gets one grant, also after it was erased`() async throws {
        let authority = authority()
        let first = try await authority.guest(request(1)).signedIn.account.id
        let second = try await authority.guest(request(2)).signedIn.account.id
        #expect(try await authority.balance(first).available == 100)
        #expect(try await authority.balance(second).available == 0)
    }

    @Test func `a token without a configured key is refused`() async throws {
        let authority = authority(hasClient: false)
        let problem = await #expect(throws: Problem.self) {
            try await authority.guest(request(1))
        }
        #expect(problem == AttestationFault.deviceCheckNotConfigured.problem)
    }

    @Test func `a blocked device is refused`() async throws {
        apple.set("token", DeviceCheckBits(isBlocked: true))
        let authority = authority()
        let problem = await #expect(throws: Problem.self) {
            try await authority.guest(request(1))
        }
        #expect(problem == AttestationFault.deviceBlocked.problem)
    }

    @Test func `a token that Apple refuses is refused`() async throws {
        apple.fail(with: .invalidToken)
        let authority = authority()
        let problem = await #expect(throws: Problem.self) {
            try await authority.guest(request(1))
        }
        #expect(problem == AttestationFault.deviceCheckToken.problem)
    }

    @Test func `a known device signs in while Apple cannot be reached`() async throws {
        let authority = authority()
        _ = try await authority.guest(request(1))
        apple.fail(with: .unavailable)
        #expect(try await !authority.guest(request(1)).isNew)
    }

    @Test func `Apple is not asked about a device with a wrong secret`() async throws {
        let authority = authority()
        _ = try await authority.guest(request(1))
        var wrong = request(1)
        wrong.deviceSecret = Base64URL.encode([UInt8](repeating: 8, count: 32))
        await #expect(throws: Problem.self) { try await authority.guest(wrong) }
        #expect(apple.queries == 1)
    }

    @Test func `Apple is not asked for an address with too many guests`() async throws {
        let authority = authority(guestsPerHour: 1)
        _ = try await authority.guest(request(1), from: "192.0.2.1")
        let problem = await #expect(throws: Problem.self) {
            try await authority.guest(request(2), from: "192.0.2.1")
        }
        #expect(problem?.code == .rateLimited && apple.queries == 1)
    }

    @Test func `while Apple cannot be reached, the request may be repeated`() async throws {
        apple.fail(with: .unavailable)
        let authority = authority()
        let problem = await #expect(throws: Problem.self) {
            try await authority.guest(request(1))
        }
        #expect(problem?.code == .overloaded && problem?.retryAfter == 5)
        apple.fail(with: nil)
        #expect(try await authority.guest(request(1)).isNew)
    }
}
