import SanguineModel

// A reinstalled app has a new device id and secret, but the same app transaction.
//
// The rule: an app transaction is a proof, by Apple's signature, that an Apple account has this
// app, and by `deviceVerification` that this device requested it. It finds the guest of the Apple
// account, and only a guest: a registered account is entered by its login. So that a reinstall
// never grants tokens twice, a new guest of a known Apple account gets no grant.
extension Authority {
    /// The result of looking for the guest of an app transaction.
    struct KnownAppTransaction: Sendable {
        var id: String
        /// The account that the Apple account had last; `nil` for none.
        var account: Identifier?
        /// The account that has the data of ``account`` now: another one if the guest was merged
        /// or left.
        var current: Identifier?
    }

    /// Verifies the app transaction of a request, and finds its guest; `nil` if it sends none.
    ///
    /// - Throws: `invalid_content`, `purchase_invalid`, `purchase_foreign`.
    func appTransaction(
        of request: GuestRequest
    ) async throws(Problem) -> KnownAppTransaction? {
        guard let signed = request.signedAppTransaction else { return nil }
        guard let device = request.deviceVerificationId else {
            throw Problem(
                .invalidContent,
                "Send 'deviceVerificationId' with 'signedAppTransaction'."
            )
        }
        let store = try storeVerifier()
        let app = try await store.appTransaction(signed, device: device, now: clock.now())
        let id = AppTransactionGuest.id(app.id)
        let loaded = try await read { storage throws(StorageError) in
            try await storage.load([AppTransactionGuest.key(id)])
        }
        let known = try loaded.document(AppTransactionGuest.self, id)
        guard let account = known?.account else { return KnownAppTransaction(id: app.id) }
        return KnownAppTransaction(
            id: app.id,
            account: account,
            current: try await alias(of: account) ?? account
        )
    }
}
