import Foundation
import Sanguine
import SanguineModel
import Synchronization
import TestSupport

/// A device with keys of a made App Attest.
final class MadeAttestor: DeviceAttestor {
    private struct State {
        var keys: [String: TestAppAttest.Key] = [:]
        var counters: [String: UInt32] = [:]
    }

    private let service: TestAppAttest
    private let state = Mutex(State())

    let isSupported = true

    init(_ service: TestAppAttest) { self.service = service }

    /// The number of keys that were made and not lost.
    var keys: Int { state.withLock(\.keys.count) }

    /// Loses all keys, as a device does when the app is removed.
    func loseKeys() { state.withLock { $0 = State() } }

    func makeKey() async throws(DeviceAttestorError) -> String {
        let key = TestAppAttest.Key()
        state.withLock { $0.keys[key.id] = key }
        return key.id
    }

    func attest(_ key: String, clientData: Data) async throws(DeviceAttestorError) -> Data {
        guard let known = state.withLock({ $0.keys[key] }) else { throw .keyInvalid }
        let challenge = String(decoding: clientData, as: UTF8.self)
        guard let attestation = try? service.attestation(of: known, challenge),
            let object = Data(base64Encoded: attestation.attestationObject)
        else { throw .unavailable }
        return object
    }

    func assertion(by key: String, clientData: Data) async throws(DeviceAttestorError) -> Data {
        let (known, counter) = state.withLock { state in
            state.counters[key, default: 0] += 1
            return (state.keys[key], state.counters[key] ?? 1)
        }
        guard let known else { throw .keyInvalid }
        // A challenge contains no full stop, a refresh token may.
        let parts = String(decoding: clientData, as: UTF8.self)
            .split(separator: ".", maxSplits: 1).map(String.init)
        guard parts.count == 2,
            let assertion = try? known.assertion(parts[0], for: parts[1], counter: counter),
            let object = Data(base64Encoded: assertion.assertion)
        else { throw .keyInvalid }
        return object
    }
}
