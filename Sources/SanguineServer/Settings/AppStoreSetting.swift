import Foundation
public import SanguineAuthority

/// The app whose App Store purchases the server accepts.
public struct AppStoreSetting: Hashable, Sendable {
    /// The bundle identifier of the app.
    ///
    /// Default: `nil`; purchases are refused.
    public var bundleId: String?
    /// The only accepted environment: `production` or `sandbox`.
    ///
    /// Default: `production`.
    public var environment = "production"
    /// The app's numeric identifier in the App Store, which notifications and app transactions of
    /// production must name.
    ///
    /// Default: `nil`; needed in production if ``bundleId`` is set.
    public var appAppleId: Int?
    /// The files of the trusted root certificates, in DER or PEM.
    ///
    /// Default: none; needed if ``bundleId`` is set.
    public var roots: [String] = []
    /// Whether purchases of family members count: `refuse` or `count`.
    ///
    /// Default: `refuse`.
    public var familySharing = "refuse"
    /// The products by their identifiers; others are refused.
    ///
    /// Only the file of settings can declare them, as `appStore.products.<id>`. Default: none.
    public var products: [String: StoreProduct] = [:]

    /// Reads the root certificates.
    ///
    /// - Returns: The rules of the authority, or `nil` without an app.
    /// - Throws: ``SettingsError`` for files that contain no certificate.
    func load() throws(SettingsError) -> AppStoreSettings? {
        guard let bundleId else { return nil }
        var certificates: [AppStoreRoot] = []
        for path in roots {
            guard let data = FileManager.default.contents(atPath: path) else {
                throw SettingsError([
                    .unreadable(file: path, reason: "the file does not exist.")
                ])
            }
            do throws(AppStoreRootError) {
                certificates.append(try AppStoreRoot(Array(data)))
            } catch {
                throw SettingsError([.unreadable(file: path, reason: error.description)])
            }
        }
        return AppStoreSettings(
            bundleID: bundleId,
            environment: environment == "sandbox" ? .sandbox : .production,
            appAppleID: appAppleId.map(Int64.init),
            roots: certificates,
            products: products,
            countsFamilySharing: familySharing == "count"
        )
    }

    /// Returns the members with invalid values.
    ///
    /// - Parameter limit: The maximum number of products.
    /// - Returns: Those that the server cannot use.
    func problems(limit: Int) -> [SettingsError.Problem] {
        var problems: [SettingsError.Problem] = []
        if bundleId != nil, roots.isEmpty {
            problems.append(
                .invalid(
                    setting: "appStore.roots",
                    value: "",
                    allowed: "at least one file, because purchases are signed below a root",
                    source: "settings"
                )
            )
        }
        if bundleId != nil, environment == "production", appAppleId == nil {
            problems.append(
                .invalid(
                    setting: "appStore.appAppleId",
                    value: "",
                    allowed: """
                        the app's Apple ID, as App Store Connect shows it under App Information, \
                        because production is checked by it; or set 'appStore.environment' to \
                        sandbox
                        """,
                    source: "settings"
                )
            )
        }
        if bundleId == nil, !roots.isEmpty || !products.isEmpty {
            problems.append(
                .invalid(
                    setting: "appStore.bundleId",
                    value: "",
                    allowed: "the bundle identifier of the app, because products or roots are set",
                    source: "settings"
                )
            )
        }
        if products.count > limit {
            problems.append(
                .invalid(
                    setting: "appStore.products",
                    value: String(products.count),
                    allowed: "at most \(limit)",
                    source: "settings"
                )
            )
        }
        for (id, product) in products.sorted(by: { $0.key < $1.key })
        where StoreProduct(text: product.text) == nil || id.isEmpty {
            problems.append(
                .invalid(
                    setting: "appStore.products.\(id)",
                    value: product.text,
                    allowed: StoreProduct.allowed,
                    source: "settings"
                )
            )
        }
        return problems
    }
}
