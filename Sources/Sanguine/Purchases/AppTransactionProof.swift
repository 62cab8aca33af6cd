import SanguineModel

/// The proof that this device has the app from a store, by which a reinstalled app finds its guest.
///
/// See ``SanguineClient/Configuration/appTransaction``.
public struct AppTransactionProof: Hashable, Sendable {
    /// StoreKit's `AppTransaction` as the App Store signed it: its `jwsRepresentation`.
    public var signedAppTransaction: String
    /// StoreKit's `AppStore.deviceVerificationID`.
    public var deviceVerificationId: String

    /// Creates a proof.
    public init(signedAppTransaction: String, deviceVerificationId: String) {
        self.signedAppTransaction = signedAppTransaction
        self.deviceVerificationId = deviceVerificationId
    }
}

extension SanguineClient.Configuration {
    /// Returns the proof for the creation of a guest; `nil` if there is none, or if it takes too
    /// long.
    func appTransactionProof() async -> AppTransactionProof? {
        guard let appTransaction else { return nil }
        let outcome = OneShot<AppTransactionProof?>()
        let work = Task { outcome.resolve(.success(await appTransaction())) }
        let deadline = Task { [delay] in
            guard (try? await delay.sleep(for: SessionLimits.proofTimeout)) != nil else { return }
            outcome.resolve(.success(nil))
        }
        defer {
            work.cancel()
            deadline.cancel()
        }
        return try? await outcome.value()
    }
}

extension SanguineError {
    /// Whether the server refuses the proof of a guest, or cannot verify any: the guest is created
    /// without it.
    var refusesProof: Bool {
        guard case .problem(let problem) = self else { return false }
        return [.purchaseInvalid, .purchaseForeign, .invalidContent, .notFound]
            .contains(problem.code)
    }
}
