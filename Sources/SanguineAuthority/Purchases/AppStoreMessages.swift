import Foundation
import SanguineModel

/// A payload that the App Store signs.
protocol AppStoreSigned: Decodable, Sendable {
    /// The time of the signature, for which the certificates must be valid.
    var signedAt: Timestamp { get }
}

/// A transaction: Apple's `JWSTransactionDecodedPayload`, as far as it is used.
package struct AppStoreTransaction: AppStoreSigned, Decodable, Hashable, Sendable {
    var id: String
    var originalID: String
    var product: String
    var bundleID: String?
    var environment: String?
    /// The number of purchased units.
    var quantity: Int64
    var purchasedAt: Timestamp
    var expiresAt: Timestamp?
    var revokedAt: Timestamp?
    /// The refunded part in milliunits of a percent: 100,000 for all of it.
    var revokedPart: Int64?
    /// Whether another purchase of the same subscription group replaced it.
    var isUpgraded: Bool
    var isFamilyShared: Bool
    /// The account that the app named at the purchase.
    var account: Identifier?
    var signedAt: Timestamp

    /// The refunded part in milliunits of a percent; 0 for a transaction that is not revoked.
    var refundedPart: Int64 {
        revokedAt == nil ? 0 : min(max(0, revokedPart ?? Self.wholePart), Self.wholePart)
    }

    /// All of a transaction, in milliunits of a percent.
    static let wholePart: Int64 = 100_000

    private enum CodingKeys: String, CodingKey {
        case transactionId, originalTransactionId, productId, bundleId, environment, quantity
        case purchaseDate, expiresDate, revocationDate, revocationPercentage, isUpgraded
        case inAppOwnershipType, appAccountToken, signedDate
    }

    package init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        id = try members.storeID(.transactionId)
        originalID = try members.storeID(.originalTransactionId, otherwise: id)
        product = try members.decode(String.self, forKey: .productId)
        bundleID = try members.decodeIfPresent(String.self, forKey: .bundleId)
        environment = try members.decodeIfPresent(String.self, forKey: .environment)
        let quantity = try members.decodeIfPresent(Int64.self, forKey: .quantity) ?? 1
        self.quantity = min(max(1, quantity), 1_000)
        purchasedAt = try members.milliseconds(.purchaseDate)
        expiresAt = try members.millisecondsIfPresent(.expiresDate)
        revokedAt = try members.millisecondsIfPresent(.revocationDate)
        revokedPart = try members.decodeIfPresent(Int64.self, forKey: .revocationPercentage)
        isUpgraded = try members.decodeIfPresent(Bool.self, forKey: .isUpgraded) ?? false
        let ownership = try members.decodeIfPresent(String.self, forKey: .inAppOwnershipType)
        isFamilyShared = ownership == "FAMILY_SHARED"
        account = try members.decodeIfPresent(String.self, forKey: .appAccountToken)
            .flatMap { Identifier($0.lowercased()) }
        signedAt = try members.milliseconds(.signedDate)
    }
}

/// The state of a subscription's renewal: Apple's `JWSRenewalInfoDecodedPayload`, as far as it is
/// used.
struct AppStoreRenewal: AppStoreSigned, Hashable {
    var graceEndsAt: Timestamp?
    var environment: String?
    var signedAt: Timestamp

    private enum CodingKeys: String, CodingKey {
        case gracePeriodExpiresDate, environment, signedDate
    }

    init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        graceEndsAt = try members.millisecondsIfPresent(.gracePeriodExpiresDate)
        environment = try members.decodeIfPresent(String.self, forKey: .environment)
        signedAt = try members.milliseconds(.signedDate)
    }
}

/// A server notification, version 2: Apple's `responseBodyV2DecodedPayload`.
struct AppStoreNotification: AppStoreSigned, Hashable {
    struct Content: Decodable, Hashable, Sendable {
        var appAppleId: Int64?
        var bundleId: String?
        var environment: String?
        var signedTransactionInfo: String?
        var signedRenewalInfo: String?
    }

    var id: String
    var type: String
    var subtype: String?
    var content: Content?
    var signedAt: Timestamp

    private enum CodingKeys: String, CodingKey {
        case notificationUUID, notificationType, subtype, data, summary, signedDate
    }

    init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        id = try members.storeID(.notificationUUID)
        type = try members.decode(String.self, forKey: .notificationType)
        subtype = try members.decodeIfPresent(String.self, forKey: .subtype)
        // A summary names the app in the same way, and has no transaction.
        content =
            try members.decodeIfPresent(Content.self, forKey: .data)
            ?? members.decodeIfPresent(Content.self, forKey: .summary)
        signedAt = try members.milliseconds(.signedDate)
    }
}

/// The proof that an Apple account has the app: StoreKit's `AppTransaction`, as far as it is used.
struct AppStoreAppTransaction: AppStoreSigned, Hashable {
    /// The same for all devices and installations of one Apple account.
    var id: String
    var bundleID: String?
    var appAppleID: Int64?
    var environment: String?
    var deviceVerification: String
    var deviceVerificationNonce: String
    var signedAt: Timestamp

    private enum CodingKeys: String, CodingKey {
        case appTransactionId, bundleId, appAppleId, receiptType, deviceVerification
        case deviceVerificationNonce, receiptCreationDate
    }

    init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        id = try members.storeID(.appTransactionId)
        bundleID = try members.decodeIfPresent(String.self, forKey: .bundleId)
        appAppleID = try members.decodeIfPresent(Int64.self, forKey: .appAppleId)
        environment = try members.decodeIfPresent(String.self, forKey: .receiptType)
        deviceVerification = try members.decode(String.self, forKey: .deviceVerification)
        deviceVerificationNonce = try members.decode(String.self, forKey: .deviceVerificationNonce)
        signedAt = try members.milliseconds(.receiptCreationDate)
    }
}

extension KeyedDecodingContainer {
    /// Decodes milliseconds since 1970, which StoreKit may write with a fraction.
    fileprivate func milliseconds(_ key: Key) throws -> Timestamp {
        let number = try decode(Double.self, forKey: key).rounded()
        // Until the year 9999.
        guard (0...253_402_300_799_000).contains(number) else {
            throw DecodingError.dataCorruptedError(
                forKey: key,
                in: self,
                debugDescription: "The time is out of range."
            )
        }
        return Timestamp(millisecondsSince1970: Int64(number))
    }

    fileprivate func millisecondsIfPresent(_ key: Key) throws -> Timestamp? {
        guard contains(key), try !decodeNil(forKey: key) else { return nil }
        return try milliseconds(key)
    }

    /// Decodes an id of the store: 1 to 64 visible ASCII characters.
    fileprivate func storeID(_ key: Key, otherwise fallback: String? = nil) throws -> String {
        let text = try decodeIfPresent(String.self, forKey: key) ?? fallback ?? ""
        guard (1...64).contains(text.utf8.count),
            text.utf8.allSatisfy({ (0x21...0x7E).contains($0) })
        else {
            throw DecodingError.dataCorruptedError(
                forKey: key,
                in: self,
                debugDescription: "The id is not 1 to 64 visible ASCII characters."
            )
        }
        return text
    }
}
