import type { IAuthenticateGeneric, ICredentialTestRequest, ICredentialType, INodeProperties } from "n8n-workflow";

/** Where Mailsift is, and the key of an account there. */
export class MailsiftApi implements ICredentialType {
  name = "mailsiftApi";
  displayName = "Mailsift API";
  properties: INodeProperties[] = [
    {
      displayName: "URL",
      name: "url",
      type: "string",
      default: "",
      placeholder: "https://mailsift.example.com",
      required: true,
    },
    {
      displayName: "Key",
      name: "key",
      type: "string",
      typeOptions: { password: true },
      default: "",
      description: "A key of your account; one that begins with svc_test_ asks no mail server",
      required: true,
    },
  ];
  authenticate: IAuthenticateGeneric = {
    type: "generic",
    properties: { headers: { Authorization: "=Bearer {{$credentials.key}}" } },
  };
  test: ICredentialTestRequest = { request: { baseURL: "={{$credentials.url}}", url: "/v1/usage" } };
}
