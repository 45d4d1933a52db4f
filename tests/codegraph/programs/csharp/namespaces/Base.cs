namespace Acme
{
    public class Base
    {
        protected void Shared() {}
    }
}
