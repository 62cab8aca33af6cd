import Sanguine

/// Stores a view's model, which is the same until the query or the client changes.
///
/// It is the state of a view's property, so it exists as long as the view keeps its identity, even
/// if the view's value is recreated. The first slot is kept, and slots of later values are
/// discarded unused. A slot is cheap, and creates its model on demand.
///
/// Invariant: `held` has the identity and the client of the last request.
@MainActor
final class ModelSlot<Model: AnyObject> {
    private struct Held {
        let identity: ModelIdentity
        let client: SanguineClient
        let model: Model
    }

    private var held: Held?

    nonisolated init() {}

    /// The model that was returned last.
    var current: Model? { held?.model }

    /// Returns the model for the identity and the client.
    ///
    /// - Parameters:
    ///   - identity: The identity of the model.
    ///   - client: The client of the model.
    ///   - make: Creates the model, if the identity or the client changed.
    /// - Returns: The previous model if neither changed, otherwise a new one.
    func model(
        of identity: ModelIdentity,
        from client: SanguineClient,
        _ make: (SanguineClient) -> Model
    ) -> Model {
        if let held, held.client === client, held.identity == identity { return held.model }
        // The new model is created before the old one is released, so that shared work continues.
        let model = make(client)
        held = Held(identity: identity, client: client, model: model)
        return model
    }
}
