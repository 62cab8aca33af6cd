#if !canImport(SwiftUI)

/// SwiftUI's `DynamicProperty`, which no actor isolates.
public protocol DynamicProperty {
    /// Called before a view's body is.
    mutating func update()
}

extension DynamicProperty {
    /// Does nothing.
    public mutating func update() {}
}

/// What a host puts in the place of a property that was made anew with its view.
protocol HostedProperty {
    var box: AnyObject { get }

    func host(in former: AnyObject?, _ environment: EnvironmentValues)
}

/// SwiftUI's `State`: its value is the view's, however often that is made anew.
@propertyWrapper
public struct State<Value>: DynamicProperty {
    final class Box {
        var value: Value
        /// The box of the view as it was first made.
        var first: Box?

        init(_ value: Value) { self.value = value }
    }

    let content: Box

    /// A property with its first value.
    public init(wrappedValue value: Value) { content = Box(value) }

    /// A property with its first value.
    public init(initialValue value: Value) { content = Box(value) }

    /// The value.
    public var wrappedValue: Value {
        get { (content.first ?? content).value }
        nonmutating set { (content.first ?? content).value = newValue }
    }
}

// As in SwiftUI. Here all of it happens on the main actor.
extension State: @unchecked Sendable where Value: Sendable {}

extension State: HostedProperty {
    var box: AnyObject { content }

    func host(in former: AnyObject?, _ environment: EnvironmentValues) {
        content.first = former as? Box
    }
}

/// SwiftUI's `Environment`.
@propertyWrapper
public struct Environment<Value>: DynamicProperty {
    final class Box {
        var values = EnvironmentValues()
    }

    private let keyPath: KeyPath<EnvironmentValues, Value>
    private let content = Box()

    /// The value at that place of the environment.
    public init(_ keyPath: KeyPath<EnvironmentValues, Value>) { self.keyPath = keyPath }

    /// The value.
    public var wrappedValue: Value { content.values[keyPath: keyPath] }
}

// As in SwiftUI. Here all of it happens on the main actor.
extension Environment: @unchecked Sendable where Value: Sendable {}

extension Environment: HostedProperty {
    var box: AnyObject { content }

    func host(in former: AnyObject?, _ environment: EnvironmentValues) {
        content.values = environment
    }
}

/// SwiftUI's `EnvironmentKey`.
public protocol EnvironmentKey {
    /// The type of the value.
    associatedtype Value

    /// The value where none was set.
    static var defaultValue: Self.Value { get }
}

/// SwiftUI's `EnvironmentValues`.
public struct EnvironmentValues {
    private var values: [ObjectIdentifier: Any] = [:]

    /// The default values.
    public init() {}

    /// The value of that key.
    public subscript<Key: EnvironmentKey>(key: Key.Type) -> Key.Value {
        get { values[ObjectIdentifier(key)] as? Key.Value ?? Key.defaultValue }
        set { values[ObjectIdentifier(key)] = newValue }
    }
}
#endif
