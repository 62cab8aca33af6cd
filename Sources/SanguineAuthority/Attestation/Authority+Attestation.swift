package import SanguineModel

// Challenges, attestations and assertions of devices.
extension Authority {
    /// Returns a new challenge for an attestation or assertion.
    ///
    /// - Throws: `attestation_failed` if the server verifies none.
    package func attestationChallenge() throws(Problem) -> AttestationChallenge {
        _ = try requiredVerifier()
        return challenges.issue(at: clock.now())
    }

    private func requiredVerifier() throws(Problem) -> any AttestationVerifier {
        guard let attestationVerifier, settings.attestation != nil else {
            throw AttestationFault.notConfigured.problem
        }
        return attestationVerifier
    }

    /// Verifies the attestation or assertion of a guest's device.
    ///
    /// - Parameters:
    ///   - request: The request; its attestation counts if it has both.
    ///   - isNew: Whether the device becomes a new guest, so that it must be attested.
    /// - Returns: The proof; `nil` if none was sent, and none is required.
    /// - Throws: `attestation_failed`.
    func proof(of request: GuestRequest, isNew: Bool) async throws(Problem) -> DeviceProof? {
        if let attestation = request.attestation { return try await proof(attestation) }
        if let assertion = request.assertion, !isNew {
            return try await proof(assertion, for: request.deviceId)
        }
        guard let rules = settings.attestation else {
            guard request.assertion == nil else { throw AttestationFault.notConfigured.problem }
            return nil
        }
        if isNew {
            guard rules.guests == .optional || request.deviceCheckToken != nil else {
                throw AttestationFault.missing.problem
            }
            return nil
        }
        guard rules.demandsAssertions else { return nil }
        guard try await attestedKey(of: request.deviceId) == nil else {
            throw AttestationFault.assertionMissing.problem
        }
        return nil
    }

    private func proof(_ attestation: DeviceAttestation) async throws(Problem) -> DeviceProof {
        let verifier = try requiredVerifier()
        let now = clock.now()
        do throws(AttestationFault) {
            let challenge = try challenges.spend(attestation.challenge, at: now)
            let key = try await verifier.attest(
                attestation,
                clientData: Array(attestation.challenge.utf8),
                at: now
            )
            return DeviceProof(challenge: challenge, key: key)
        } catch {
            throw error.problem
        }
    }

    /// Verifies an assertion about a text.
    ///
    /// - Throws: `attestation_failed`.
    func proof(
        _ assertion: DeviceAssertion,
        for subject: String
    ) async throws(Problem) -> DeviceProof {
        let verifier = try requiredVerifier()
        guard let id = AttestationObject.bytes(assertion.keyId), id.count == AttestedKey.idBytes
        else {
            throw AttestationFault.keyID.problem
        }
        let name = AttestedKey.id(id)
        let loaded = try await read { storage throws(StorageError) in
            try await storage.load([AttestedKey.key(name)])
        }
        guard let known = try loaded.document(AttestedKey.self, name) else {
            throw AttestationFault.key.problem
        }
        do throws(AttestationFault) {
            let challenge = try challenges.spend(assertion.challenge, at: clock.now())
            let counter = try await verifier.verify(
                assertion,
                clientData: Array("\(assertion.challenge).\(subject)".utf8),
                by: known.key
            )
            return DeviceProof(challenge: challenge, key: known.key, counter: counter)
        } catch {
            throw error.problem
        }
    }

    /// Returns the identifier of a device's key; `nil` if it has none.
    private func attestedKey(of device: String) async throws(Problem) -> [UInt8]? {
        let name = AttestedUse.device(device)
        return try await read { storage throws(StorageError) in
            try await storage.load([AttestedUse.key(name)])
        }
        .document(AttestedUse.self, name)?.key
    }

    /// Returns the bits of a device by its token; `nil` if the request has none.
    ///
    /// A known device gets no grant, so it signs in also while Apple cannot be reached.
    ///
    /// - Throws: `attestation_failed`, `overloaded`.
    func deviceCheck(
        _ request: GuestRequest,
        isNew: Bool
    ) async throws(Problem) -> DeviceCheckBits? {
        guard let token = request.deviceCheckToken else { return nil }
        guard let client = deviceCheckClient else {
            throw AttestationFault.deviceCheckNotConfigured.problem
        }
        guard token.utf8.count <= Self.deviceCheckCharacters else {
            throw AttestationFault.deviceCheckToken.problem
        }
        let bits: DeviceCheckBits
        do throws(DeviceCheckError) { bits = try await client.query(token) } catch {
            guard isNew || error == .invalidToken else { return nil }
            throw error.problem
        }
        guard !bits.isBlocked else { throw AttestationFault.deviceBlocked.problem }
        return bits
    }

    /// Remembers at Apple that the device has had the grant.
    ///
    /// If Apple cannot be reached, the device's next sign-in with a token does it. The request runs
    /// in a task of its own, so that a client cannot prevent it by closing its connection.
    func markDevice(_ request: GuestRequest, _ bits: DeviceCheckBits?) async {
        guard let bits, !bits.hasHadGrant, let token = request.deviceCheckToken,
            let client = deviceCheckClient
        else { return }
        let marked = DeviceCheckBits(hasHadGrant: true, isBlocked: bits.isBlocked)
        await Task { try? await client.update(token, marked) }.value
    }

    /// The maximum number of characters of a DeviceCheck token.
    private static let deviceCheckCharacters = 1 << 14
}

extension IdentityCommands {
    /// The assertion of a refresh, and whether one is demanded.
    struct RefreshProof: Sendable {
        /// The verified assertion; `nil` for none.
        var proof: DeviceProof?
        /// Whether a session that is bound to a key needs an assertion.
        var isDemanded: Bool

        func keys(of session: Identifier) -> [Key] {
            [AttestedUse.key(AttestedUse.session(session))] + (proof?.keys(of: nil) ?? [])
        }

        /// Returns the changes of the assertion, which must be by the key of the session.
        ///
        /// - Throws: `attestation_failed`.
        func apply(to session: SessionRow, _ loaded: Loaded) throws(Problem) -> [Change] {
            let bound = try loaded.document(
                AttestedUse.self,
                AttestedUse.session(session.id)
            )
            guard let proof else {
                guard let bound else { return [] }
                guard !isDemanded else { throw AttestationFault.assertionMissing.problem }
                return [DeviceProof.bind(session, to: bound.key)]
            }
            guard bound?.key == proof.key.id else { throw AttestationFault.key.problem }
            return try proof.assert(loaded) + [DeviceProof.bind(session, to: proof.key.id)]
        }
    }
}
