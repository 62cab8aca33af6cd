#if canImport(SwiftUI) || canImport(SwiftUIStandIn)
public import Sanguine

#if canImport(SwiftUI)
public import SwiftUI
#else
public import SwiftUIStandIn
#endif

/// The environment key of the views' client.
private enum ClientKey: EnvironmentKey {
    static let defaultValue = SanguineClient.refusing(
        .invalidDeclaration(
            """
            No client is in this view's environment. Add '.sanguineClient(client)' to the app's \
            first view, or '.sanguineClient(.preview { … })' to a preview.
            """
        )
    )
}

extension EnvironmentValues {
    /// The client of the views.
    ///
    /// The default client contains no data, and refuses every read and write with an error that
    /// explains how to set a client. Views show that error instead of crashing.
    public var sanguine: SanguineClient {
        get { self[ClientKey.self] }
        set { self[ClientKey.self] = newValue }
    }
}

extension View {
    /// Sets the client of this view and the views inside it.
    ///
    /// Existing views switch to the client, and stop observing the previous one.
    public func sanguineClient(_ client: SanguineClient) -> some View {
        environment(\.sanguine, client)
    }
}
#endif
