import Foundation
import Logging
import SanguineModel
import Synchronization

/// Sends the requests for a session with the attestations and assertions that the server asks for.
///
/// A device has one key for each user. It is stored after the server has accepted its attestation.
/// A lost key is replaced by a new one, which the server accepts from a device that it knows.
///
/// An attestation without an answer is sent again until its challenge expires, because the server
/// may have accepted it. A key is attested only once.
///
/// Mutable state: `guarded`, protected by its mutex, which is never held during I/O or calls of
/// other code.
final class AttestationKeeper: Sendable {
    static let stateName = "attestation"

    /// The proof of one request.
    private enum Proof {
        case attestation(DeviceAttestation)
        case assertion(DeviceAssertion)
        /// The server asks for none, or there was an error.
        case none(DeviceAttestorError?)
    }

    /// An attestation without an answer.
    private struct Pending {
        let attestation: DeviceAttestation
        let expiresAt: Timestamp
    }

    private struct Stored: Codable {
        let key: String
    }

    private struct Guarded {
        /// The key that the server knows.
        var key: String?
        /// A key that could not be attested yet.
        var newKey: String?
        var pending: Pending?
        /// Whether the last refresh needed an assertion.
        var isDemanded = false
    }

    private let guarded: Mutex<Guarded>
    private let attestor: (any DeviceAttestor)?
    private let configuration: SanguineClient.Configuration
    private let exchange: Exchange
    private let store: ClientStore

    /// Restores the key that an earlier process left in the user's store.
    init(_ configuration: SanguineClient.Configuration, _ exchange: Exchange, _ store: ClientStore)
    {
        let stored = try? store.state(Self.stateName).flatMap {
            try WireCoding.decode(Stored.self, from: $0)
        }
        guarded = Mutex(Guarded(key: stored?.key))
        attestor = configuration.deviceAttestor
        self.configuration = configuration
        self.exchange = exchange
        self.store = store
    }

    /// Sends a request for a guest.
    func send(
        _ body: GuestRequest,
        _ post: (GuestRequest) async throws(SanguineError) -> TransportResponse
    ) async throws(SanguineError) -> TransportResponse {
        guard let attestor else { return try await post(body) }
        var proven = body
        proven.deviceCheckToken =
            try? await bounded { () async throws(DeviceAttestorError) in
                await attestor.deviceToken()?.base64EncodedString()
            }
        var proof = try await proof(about: body.deviceId, attestor)
        if case .assertion(let assertion) = proof {
            proven.assertion = assertion
            do throws(SanguineError) {
                return try await post(proven)
            } catch {
                guard error.isAttestationFailure else { throw error }
            }
            // The server does not know the key, for example because the account was deleted.
            proven.assertion = nil
            keep(nil)
            proof = try await self.proof(about: body.deviceId, attestor)
        }
        if case .attestation(let attestation) = proof { proven.attestation = attestation }
        do throws(SanguineError) {
            let response = try await post(proven)
            if let key = proven.attestation?.keyId { keep(key) }
            return response
        } catch {
            guard error.isAttestationFailure else { throw error }
            guarded.withLock { $0.pending = nil }
            guard case .none(.unavailable) = proof else { throw error }
            throw .problem(Problem(.overloaded, "Try again: the device could not be attested."))
        }
    }

    /// Sends a request for the next session.
    func send(
        _ body: RefreshRequest,
        _ post: (RefreshRequest) async throws(SanguineError) -> TransportResponse
    ) async throws(SanguineError) -> TransportResponse {
        let isFirst = guarded.withLock { $0.isDemanded }
        if isFirst, let proven = try await asserted(body) {
            do throws(SanguineError) {
                return try await post(proven)
            } catch {
                guard error.isAttestationFailure else { throw error }
                // The session may be one that needs no assertion.
                guarded.withLock { $0.isDemanded = false }
            }
        }
        do throws(SanguineError) {
            return try await post(body)
        } catch {
            guard error.isAttestationFailure, !isFirst, let proven = try await asserted(body)
            else { throw error }
            let response = try await post(proven)
            guarded.withLock { $0.isDemanded = true }
            return response
        }
    }
}

// MARK: - Proofs

extension AttestationKeeper {
    /// Returns the request with an assertion; `nil` if there is no key, or no challenge.
    private func asserted(
        _ body: RefreshRequest
    ) async throws(SanguineError) -> RefreshRequest? {
        guard let attestor, let key = guarded.withLock({ $0.key }),
            let challenge = try await challenge()
        else { return nil }
        do throws(DeviceAttestorError) {
            var proven = body
            proven.assertion = try await assertion(key, body.refreshToken, challenge, attestor)
            return proven
        } catch {
            if error == .keyInvalid { keep(nil) }
            return nil
        }
    }

    private func proof(
        about device: String,
        _ attestor: any DeviceAttestor
    ) async throws(SanguineError) -> Proof {
        let now = configuration.clock.now()
        let (key, pending) = guarded.withLock { ($0.key, $0.pending) }
        if let pending, now < pending.expiresAt { return .attestation(pending.attestation) }
        guard attestor.isSupported else { return .none(.unsupported) }
        guard let challenge = try await challenge() else { return .none(nil) }
        do throws(DeviceAttestorError) {
            if let key {
                do throws(DeviceAttestorError) {
                    return .assertion(try await assertion(key, device, challenge, attestor))
                } catch {
                    guard error == .keyInvalid else { throw error }
                    keep(nil)
                }
            }
            let attestation = try await attestation(challenge, attestor)
            let pending = Pending(
                attestation: attestation,
                expiresAt: now + .seconds(max(0, challenge.expiresIn))
            )
            guarded.withLock { $0.pending = pending }
            return .attestation(attestation)
        } catch {
            configuration.logger.warning(
                "The device could not be attested.",
                metadata: ["reason": "\(error)"]
            )
            return .none(error)
        }
    }

    private func attestation(
        _ challenge: AttestationChallenge,
        _ attestor: any DeviceAttestor
    ) async throws(DeviceAttestorError) -> DeviceAttestation {
        let key: String
        if let earlier = guarded.withLock({ $0.newKey }) {
            key = earlier
        } else {
            key = try await bounded { () async throws(DeviceAttestorError) in
                try await attestor.makeKey()
            }
        }
        guarded.withLock { $0.newKey = key }
        do throws(DeviceAttestorError) {
            let object = try await bounded { () async throws(DeviceAttestorError) in
                try await attestor.attest(key, clientData: Data(challenge.challenge.utf8))
            }
            guarded.withLock { $0.newKey = nil }
            return DeviceAttestation(
                keyId: key,
                attestationObject: object.base64EncodedString(),
                challenge: challenge.challenge
            )
        } catch {
            if error != .unavailable { guarded.withLock { $0.newKey = nil } }
            throw error
        }
    }

    private func assertion(
        _ key: String,
        _ subject: String,
        _ challenge: AttestationChallenge,
        _ attestor: any DeviceAttestor
    ) async throws(DeviceAttestorError) -> DeviceAssertion {
        let clientData = Data("\(challenge.challenge).\(subject)".utf8)
        let object = try await bounded { () async throws(DeviceAttestorError) in
            try await attestor.assertion(by: key, clientData: clientData)
        }
        return DeviceAssertion(
            keyId: key,
            assertion: object.base64EncodedString(),
            challenge: challenge.challenge
        )
    }

    /// Returns a challenge; `nil` if the server verifies no attestations.
    private func challenge() async throws(SanguineError) -> AttestationChallenge? {
        let request = try TransportRequest(
            method: "GET",
            base: configuration.server,
            path: "/v1/attestation/challenge",
            timeout: SessionLimits.requestTimeout
        )
        do throws(SanguineError) {
            let response = try await exchange.send(request)
            return try WireCoding.decode(AttestationChallenge.self, from: response.body)
        } catch {
            guard error.isAttestationFailure || error.isMissingRoute else { throw error }
            return nil
        }
    }

    /// Stores the key that the server knows, or removes it.
    private func keep(_ key: String?) {
        guarded.withLock { guarded in
            guarded.key = key
            guarded.pending = nil
        }
        do {
            let data = try key.map { try WireCoding.encode(Stored(key: $0)) }
            try store.setState(Self.stateName, data)
        } catch {
            // The next process attests another key.
            configuration.logger.error(
                "The attested key could not be stored.",
                metadata: ["reason": "\(error)"]
            )
        }
    }

    /// Runs a method of the attestor within the time limit.
    private func bounded<Value: Sendable>(
        _ work: @escaping @Sendable () async throws(DeviceAttestorError) -> Value
    ) async throws(DeviceAttestorError) -> Value {
        let outcome = OneShot<Result<Value, DeviceAttestorError>>()
        let task = Task {
            let result: Result<Value, DeviceAttestorError>
            do throws(DeviceAttestorError) {
                result = .success(try await work())
            } catch {
                result = .failure(error)
            }
            outcome.resolve(.success(result))
        }
        let deadline = Task { [delay = configuration.delay] in
            guard (try? await delay.sleep(for: SessionLimits.attestationTimeout)) != nil else {
                return
            }
            outcome.resolve(.success(.failure(.unavailable)))
        }
        defer {
            task.cancel()
            deadline.cancel()
        }
        guard let result = try? await outcome.value() else { throw .unavailable }
        return try result.get()
    }
}

extension SanguineError {
    /// Whether the server refuses an attestation or assertion, or demands one.
    fileprivate var isAttestationFailure: Bool {
        guard case .problem(let problem) = self else { return false }
        return problem.code == .attestationFailed
    }

    /// Whether the server has no such route, because it is older than this client.
    fileprivate var isMissingRoute: Bool {
        guard case .problem(let problem) = self else { return false }
        return problem.status == 404
    }
}
